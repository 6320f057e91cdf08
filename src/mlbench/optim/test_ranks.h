#pragma once

// For tests: ranks that are threads of one process.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "mlbench/comm/in_process.h"
#include "mlbench/comm/test_group.h"

namespace mlbench::optim {

inline constexpr std::chrono::seconds kPatience{20};

// Runs `body(rank, communicator)` on each of `size` ranks, and waits for all.
inline void on_ranks(int size, const std::function<void(int, comm::Communicator&)>& body) {
  comm::run_group(comm::make_in_process_group(size, kPatience),
                  [&](comm::Communicator& comm) { body(comm.rank(), comm); });
}

// Whether both tensors, in any memory, have the same bits.
inline bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor a = one.to(at::kCPU), b = other.to(at::kCPU);
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace mlbench::optim
