#pragma once

// How the flat gradient buffer is divided for its exchange: from the last tensor to the first, the order in which the
// backward pass finishes them.

#include <cstdint>
#include <vector>

#include "mlbench/base/flat_layout.h"

namespace mlbench::optim {

// The elements [offset, offset + count) of the flat gradient buffer.
struct Bucket {
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Bucket&) const = default;
};

// One bucket per trainable tensor.
std::vector<Bucket> tensor_buckets(const FlatLayout& layout);

// Buckets of consecutive tensors. As in PyTorch's DistributedDataParallel, the tensor with which a bucket reaches its
// size closes it, so that no tensor is divided and a bucket may be larger. The first bucket's size is `first_bytes`,
// that of the others is `bytes`. Both must be above 0, and count no padding.
std::vector<Bucket> sized_buckets(const FlatLayout& layout, int64_t first_bytes, int64_t bytes);

}  // namespace mlbench::optim
