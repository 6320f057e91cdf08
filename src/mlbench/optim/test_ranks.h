#pragma once

// For tests: ranks that are threads of one process.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "mlbench/comm/in_process.h"

namespace mlbench::optim {

inline constexpr std::chrono::seconds kPatience{20};

// Runs `body(rank, communicator)` on each of `size` ranks, and waits for all.
inline void on_ranks(int size, const std::function<void(int, comm::Communicator&)>& body) {
  auto group = comm::make_in_process_group(size, kPatience);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { body(rank, *group[static_cast<size_t>(rank)]); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Of tensors anywhere, whole.
inline bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor a = one.to(at::kCPU), b = other.to(at::kCPU);
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace mlbench::optim
