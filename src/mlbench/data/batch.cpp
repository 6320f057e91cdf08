#include "mlbench/data/batch.h"

#include <algorithm>

namespace mlbench::data {

BatchBuffer::BatchBuffer(const dataset::CachedSplit& split, const Transform& transform, int64_t capacity)
    : labels_(static_cast<size_t>(capacity)) {
  batch.view.sample_shape = split.sample_shape;
  if (transform.leaves_as_is(split)) return;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(capacity * split.sample_volume(), 1)) * sizeof(float);
  features_.reset(static_cast<float*>(operator new[](bytes, kAlignment)));
}

void BatchBuffer::fill(const dataset::CachedSplit& split, const Transform& transform, std::span<const int64_t> wanted,
                       int64_t epoch) {
  const auto count = static_cast<int64_t>(wanted.size());
  if (features_) {
    const int64_t values = count * split.sample_volume();
    transform.apply(split, wanted, epoch, {features_.get(), static_cast<size_t>(values)});
    batch.view.features = ConstBufferView(features_.get(), values, DType::kFloat32);
  } else {
    batch.view.features = split.features;
    batch.view.rows = wanted;
  }
  for (size_t i = 0; i < wanted.size(); ++i) labels_[i] = split.labels[static_cast<size_t>(wanted[i])];
  batch.view.samples = count;
  batch.view.labels = ConstBufferView(labels_.data(), count, DType::kInt64);
}

}  // namespace mlbench::data
