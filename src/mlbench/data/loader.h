#pragma once

// From a mapped cache to batches: shard, shuffle, transform, prefetch. Plain buffers, no tensors.
// Shards: one permutation of the training set per epoch from (seed, epoch), the same on every rank. Global step s of an
// epoch takes positions [s*b*k, min((s+1)*b*k, N)); that range is cut into k parts as even as possible (earlier ranks
// take the larger ones), one per rank. Steps per epoch = ceil(N / (b*k)), equal on all ranks.

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {

struct Shard {
  int64_t workers = 1, rank = 0, batch_size = 1;   // per worker
};

int64_t steps_per_epoch(int64_t samples, const Shard& shard);

// Positions (into the epoch's permutation) of this rank's part of step `step` (within the epoch), and the number of
// samples of the global batch.
struct StepSlice { int64_t first = 0; int64_t count = 0; int64_t global_count = 0; };
StepSlice slice_of(int64_t samples, const Shard& shard, int64_t step_in_epoch);

// Decode, augmentation and normalisation of one sample into float32. Augmentation depends on (seed, epoch, sample
// index) only.
class Transform {
 public:
  virtual ~Transform() = default;
  // `rows` are sample numbers in the split; writes rows.size() * volume floats.
  virtual void apply(const dataset::CachedSplit& split, std::span<const int64_t> rows, int64_t epoch,
                     std::span<float> out) const = 0;
};
// From the names of DataSpec (train or evaluation list). UserError listing the valid names.
std::unique_ptr<Transform> make_transform(const std::vector<std::string>& names, const spec::DataSpec& data,
                                          uint64_t seed);

struct Batch {
  BatchView view;                  // valid until the next call of next()
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  int64_t global_samples = 0;      // of all ranks in this step
};

struct LoaderOptions {
  Shard shard;
  uint64_t seed = 42;
  int64_t first_step = 0;          // global step to begin with (resume in the middle of an epoch)
  int prefetch = 3;                // batches decoded ahead by the background thread; 0: decode when asked
};

// Endless training batches, in order, decoded by one background thread. Errors of that thread are rethrown by next().
class TrainLoader {
 public:
  virtual ~TrainLoader() = default;
  virtual const Batch& next() = 0;
};
std::unique_ptr<TrainLoader> make_train_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                               const LoaderOptions& options);

// This rank's part of an evaluation split, in order, in batches of up to `batch_size`; returns nullptr at the end.
// Rank r takes rows [r*N/k, (r+1)*N/k).
class EvalLoader {
 public:
  virtual ~EvalLoader() = default;
  virtual void restart() = 0;
  virtual const BatchView* next() = 0;
};
std::unique_ptr<EvalLoader> make_eval_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                             const Shard& shard, int64_t batch_size);

}  // namespace mlbench::data
