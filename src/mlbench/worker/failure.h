#pragma once

// How a rank reports an error that ends it.

#include <exception>
#include <string>

namespace mlbench::worker {

// The `kind` of the failure event (record/spool.h) for `error`: comm_timeout, comm_error, disk_full, io_error, or
// rank_error.
std::string kind_of(const std::exception& error);

// The text of `error` for records and answers, without what LibTorch appends: where in its sources it noticed the
// error. The log keeps that.
std::string message_of(const std::exception& error);

}  // namespace mlbench::worker
