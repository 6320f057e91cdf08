#pragma once

// A group of ranks that are threads of one process: the reference implementation, for tests and for measuring the
// harness's own cost (with one rank it is the null communicator).

#include <chrono>
#include <memory>
#include <vector>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm {

// One transport per rank. Each must be used by a thread of its own.
std::vector<std::unique_ptr<Transport>> make_in_process_transports(int size, std::chrono::milliseconds timeout);
// The transports of make_in_process_transports() as communicators.
std::vector<std::unique_ptr<Communicator>> make_in_process_group(int size, std::chrono::milliseconds timeout);

}  // namespace mlbench::comm
