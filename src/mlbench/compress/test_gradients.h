#pragma once

// For tests: gradients that are drawn, and what came out compared.

#include <ATen/ATen.h>

#include <cstring>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/random.h"

namespace mlbench::compress {

// Normal values for the trainable parameters, others for each rank and step; the rest is 0.
inline at::Tensor drawn_for(const FlatLayout& layout, int rank, int step) {
  RandomSequence random(static_cast<uint64_t>(1000 * rank + step + 1));
  at::Tensor values = at::zeros({layout.parameter_elements});
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    float* part = values.data_ptr<float>() + range.offset;
    for (int64_t i = 0; i < range.count; ++i) part[i] = static_cast<float>(random.normal());
  }
  return values;
}

// Whether both tensors, in any memory, have the same bits.
inline bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor a = one.to(at::kCPU), b = other.to(at::kCPU);
  if (a.nbytes() != b.nbytes()) return false;
  return a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace mlbench::compress
