#pragma once

// For tests: optimizers by their names, and ranks that are threads of one process.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "mlbench/comm/in_process.h"
#include "mlbench/comm/test_group.h"
#include "mlbench/compress/test_gradients.h"
#include "mlbench/spec/task.h"

namespace mlbench::optim {

using compress::drawn_for;
using compress::same_bits;

inline constexpr std::chrono::seconds kPatience{20};

inline spec::OptimizerSpec named(const std::string& name, const Json& options) {
  spec::OptimizerSpec spec;
  spec.name = name;
  spec.options = options;
  return spec;
}

inline std::unique_ptr<comm::Communicator> one_rank() {
  return std::move(comm::make_in_process_group(1, kPatience).front());
}

// Runs `body(rank, communicator)` on each of `size` ranks, and waits for all.
inline void on_ranks(int size, const std::function<void(int, comm::Communicator&)>& body) {
  comm::run_group(comm::make_in_process_group(size, kPatience),
                  [&](comm::Communicator& comm) { body(comm.rank(), comm); });
}

}  // namespace mlbench::optim
