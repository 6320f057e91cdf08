#pragma once

// From a mapped cache to batches: shard, shuffle, transform, prefetch. Plain buffers, no tensors.

#include <cstdint>
#include <memory>

#include "mlbench/base/buffer.h"
#include "mlbench/data/shard.h"
#include "mlbench/data/transform.h"
#include "mlbench/dataset/dataset.h"

namespace mlbench::data {

struct Batch {
  // float32 features and int64 labels; dense and 64-byte aligned, or, where the transform leaves samples as they are,
  // rows of the mapped cache.
  BatchView view;
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  int64_t global_samples = 0;  // of all ranks in this step
};

struct LoaderOptions {
  Shard shard;
  uint64_t seed = 42;
  int64_t first_step = 0;    // global step to begin with (resume in the middle of an epoch)
  int prefetch = 3;          // batches decoded ahead by the background thread; 0, and for rows of the cache: when asked
  bool fixed_batch = false;  // the first batch of the run, decoded once, over and over; no thread
};

// Endless training batches, in order, decoded by one background thread into a ring of prefetch + 1 buffers. For one
// consumer. The split must outlive the loader; destruction waits for the batch in work at most.
class TrainLoader {
 public:
  virtual ~TrainLoader() = default;
  // Waits for the next batch; valid until the next call. What the background thread threw (a transform's error) is
  // rethrown after the batches before it, and again by every later call. A batch may be empty (fewer samples left
  // than ranks): samples is 0, global_samples is not.
  virtual const Batch& next() = 0;
};
std::unique_ptr<TrainLoader> make_train_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                               const LoaderOptions& options);

// This rank's part of an evaluation split, in order, in batches of up to `batch_size`; returns nullptr at the end.
// Rank r takes rows [r*N/k, (r+1)*N/k). Decoded when asked; a dense piece of the mapped cache where the transform
// leaves samples as they are. A view is valid until the next call.
class EvalLoader {
 public:
  virtual ~EvalLoader() = default;
  virtual void restart() = 0;
  virtual const BatchView* next() = 0;
};
std::unique_ptr<EvalLoader> make_eval_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                             const Shard& shard, int64_t batch_size);

}  // namespace mlbench::data
