#include "mlbench/optim/exchange/buckets.h"

#include "mlbench/base/errors.h"

namespace mlbench::optim {

std::vector<Bucket> tensor_buckets(const FlatLayout& layout) {
  std::vector<Bucket> buckets;
  for (auto range = layout.ranges.rbegin(); range != layout.ranges.rend(); ++range) {
    if (range->trainable) buckets.push_back({range->offset, range->count});
  }
  return buckets;
}

std::vector<Bucket> sized_buckets(const FlatLayout& layout, int64_t first_bytes, int64_t bytes) {
  MLBENCH_CHECK(first_bytes > 0 && bytes > 0, "a bucket without a size");
  const std::vector<Bucket> tensors = tensor_buckets(layout);
  std::vector<Bucket> buckets;
  int64_t filled = 0;
  int64_t end = 0;  // the end of the open bucket
  for (const Bucket& tensor : tensors) {
    if (filled == 0) end = tensor.offset + tensor.count;
    filled += tensor.count * static_cast<int64_t>(sizeof(float));
    if (filled >= (buckets.empty() ? first_bytes : bytes) || &tensor == &tensors.back()) {
      buckets.push_back({tensor.offset, end - tensor.offset});
      filled = 0;
    }
  }
  return buckets;
}

}  // namespace mlbench::optim
