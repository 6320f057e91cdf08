#pragma once

// How the flat gradient buffer is divided for its exchange: from the last tensor to the first, the order in which the
// backward pass finishes them.

#include <cstdint>
#include <vector>

#include "mlbench/base/flat_layout.h"

namespace mlbench::optim {

// Elements [offset, offset + count) of the flat gradient buffer.
struct Bucket {
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Bucket&) const = default;
};

// One bucket per trainable tensor.
std::vector<Bucket> tensor_buckets(const FlatLayout& layout);

// Consecutive tensors together. As in PyTorch's DistributedDataParallel, a bucket is closed by the tensor with which it
// reaches its size, so a tensor is never divided and a bucket may be larger; the first bucket is closed at
// `first_bytes`, the others at `bytes` (both above 0; sizes without padding).
std::vector<Bucket> sized_buckets(const FlatLayout& layout, int64_t first_bytes, int64_t bytes);

}  // namespace mlbench::optim
