#pragma once

// One step's samples of this rank, and the memory that holds them.

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/data/transform.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data {

struct Batch {
  // float32 features and int64 labels; dense and 64-byte aligned, or, where the transform leaves samples as they are,
  // rows of the mapped cache.
  BatchView view;
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  int64_t global_samples = 0;  // of all ranks in this step
};

// Memory for one batch of up to `capacity` samples; none for features that are left where they are.
class BatchBuffer {
 public:
  BatchBuffer(const dataset::CachedSplit& split, const Transform& transform, int64_t capacity);

  // Points `batch.view` at these samples: at copies that `transform` writes, or, as long as `wanted` lives, at the
  // cache.
  void fill(const dataset::CachedSplit& split, const Transform& transform, std::span<const int64_t> wanted,
            int64_t epoch);
  // Whether samples are copied at all.
  bool owns_features() const { return features_ != nullptr; }

  Batch batch;

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct AlignedDelete {
    void operator()(float* data) const { operator delete[](data, kAlignment); }
  };

  std::unique_ptr<float[], AlignedDelete> features_;
  std::vector<int64_t> labels_;
};

}  // namespace mlbench::data
