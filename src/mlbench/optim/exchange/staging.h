#pragma once

// Lets an exchange work in the host's memory on gradients in separate memory: fetches a range, and puts the result
// back.

#include <ATen/ATen.h>

#include <cstdint>

#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

class Staging {
 public:
  // For gradients of `elements` elements. With a GPU, the host's memory is page-locked.
  Staging(SeparateMemory& memory, int64_t elements);

  // A tensor in the host's memory, as long as the gradients.
  at::Tensor& host() { return host_; }
  // Copy the elements [first, first + count). Any thread may call them; the copy is done on return.
  void fetch(const at::Tensor& gradients, int64_t first, int64_t count);
  void put_back(const at::Tensor& gradients, int64_t first, int64_t count);

 private:
  void copy(const at::Tensor& to, const at::Tensor& from);

  SeparateMemory& memory_;
  at::Tensor host_;
};

}  // namespace mlbench::optim
