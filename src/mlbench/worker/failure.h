#pragma once

// How a rank that failed says so.

#include <exception>
#include <string>

namespace mlbench::worker {

// The `kind` of the failure event (record/spool.h): comm_timeout, comm_error, disk_full, io_error, or rank_error.
std::string kind_of(const std::exception& error);

// The error's text for records and answers. LibTorch appends where in its sources it noticed an error; the log keeps
// that.
std::string message_of(const std::exception& error);

}  // namespace mlbench::worker
