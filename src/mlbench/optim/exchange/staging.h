#pragma once

// Gradients in separate memory, and an exchange that works on the host's: a range of them is fetched, what became of it
// is put back.

#include <ATen/ATen.h>

#include <cstdint>

#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

class Staging {
 public:
  // Gradients of that many elements. On a GPU the host's memory is page-locked.
  Staging(SeparateMemory& memory, int64_t elements);

  // As long as the gradients, in the host's memory.
  at::Tensor& host() { return host_; }
  // Elements [first, first + count), on any thread; done on return.
  void fetch(const at::Tensor& gradients, int64_t first, int64_t count);
  void put_back(const at::Tensor& gradients, int64_t first, int64_t count);

 private:
  void copy(const at::Tensor& to, const at::Tensor& from);

  SeparateMemory& memory_;
  at::Tensor host_;
};

}  // namespace mlbench::optim
