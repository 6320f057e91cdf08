#include "mlbench/optim/exchange/bucket_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

BucketSchedule::BucketSchedule(const FlatLayout& layout, const std::vector<Bucket>& buckets)
    : elements_(buckets.size()), order_(buckets.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable || range.count == 0) continue;
    const auto bucket = std::ranges::find_if(buckets, [&](const Bucket& one) {
      return range.offset >= one.offset && range.offset + range.count <= one.offset + one.count;
    });
    MLBENCH_CHECK(bucket != buckets.end(), "no bucket has tensor " + range.name);
    const auto index = static_cast<size_t>(bucket - buckets.begin());
    tensors_.push_back({range.offset, range.count, index});
    elements_[index] += range.count;
  }
  std::ranges::sort(tensors_, {}, &Tensor::offset);
  found_.reserve(buckets.size());
  begin();
}

void BucketSchedule::begin() {
  missing_ = elements_;
  found_.clear();
  gone_ = 0;
  for (size_t bucket = 0; bucket < missing_.size(); ++bucket) {
    if (missing_[bucket] == 0) found_.push_back(static_cast<int64_t>(bucket));
  }
}

void BucketSchedule::ready(int64_t first, int64_t count) {
  // Goes from the last tensor of the range to its first, as backward passes do.
  auto tensor = std::ranges::lower_bound(tensors_, first + count, {}, &Tensor::offset);
  while (tensor != tensors_.begin()) {
    --tensor;
    const int64_t begin = std::max(first, tensor->offset);
    const int64_t end = std::min(first + count, tensor->offset + tensor->count);
    if (tensor->offset + tensor->count <= first) break;
    if (begin < end) count_down(tensor->bucket, end - begin);
  }
}

void BucketSchedule::ready_all() {
  for (size_t bucket = 0; bucket < missing_.size(); ++bucket) {
    if (missing_[bucket] > 0) count_down(bucket, missing_[bucket]);
  }
}

void BucketSchedule::count_down(size_t bucket, int64_t elements) {
  int64_t& missing = missing_[bucket];
  missing -= elements;
  MLBENCH_CHECK(missing >= 0, fmt::format("bucket {} was told more gradients than it has", bucket));
  if (missing == 0) found_.push_back(static_cast<int64_t>(bucket));
}

std::optional<size_t> BucketSchedule::next() {
  if (gone_ == order_.size() || missing_[order_[gone_]] > 0) return std::nullopt;
  return order_[gone_++];
}

void BucketSchedule::set_order(std::span<const int64_t> order) {
  std::vector<int64_t> sorted(order.begin(), order.end()), all(order_.size());
  std::ranges::sort(sorted);
  std::iota(all.begin(), all.end(), int64_t{0});
  MLBENCH_CHECK(sorted == all, "an order has each bucket once");
  std::ranges::transform(order, order_.begin(), [](int64_t bucket) { return static_cast<size_t>(bucket); });
}

}  // namespace mlbench::optim
