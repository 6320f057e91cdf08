#pragma once

// For tests: ranks that are threads of one process.

#include <chrono>
#include <functional>

#include "mlbench/comm/in_process.h"
#include "mlbench/comm/test_group.h"
#include "mlbench/compress/test_gradients.h"

namespace mlbench::optim {

using compress::drawn_for;
using compress::same_bits;

inline constexpr std::chrono::seconds kPatience{20};

// Runs `body(rank, communicator)` on each of `size` ranks, and waits for all.
inline void on_ranks(int size, const std::function<void(int, comm::Communicator&)>& body) {
  comm::run_group(comm::make_in_process_group(size, kPatience),
                  [&](comm::Communicator& comm) { body(comm.rank(), comm); });
}

}  // namespace mlbench::optim
