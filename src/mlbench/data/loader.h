#pragma once

// From a mapped cache to batches: shard, shuffle, transform, prefetch. Plain buffers, no tensors.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/data/shard.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {

// Decode, augmentation and normalisation of samples into float32. Augmentation depends on (seed, epoch, sample number)
// only, never on the rank. Const and without state: one object may serve several threads.
class Transform {
 public:
  virtual ~Transform() = default;
  // `rows` are sample numbers in the split; writes rows.size() * volume floats.
  virtual void apply(const dataset::CachedSplit& split, std::span<const int64_t> rows, int64_t epoch,
                     std::span<float> out) const = 0;
  // Whether the samples of `split` already are what apply() would write, so that batches may point into the cache.
  // UserError when apply() would refuse the split.
  virtual bool leaves_as_is(const dataset::CachedSplit&) const { return false; }
};
// The stages that DataSpec (train or evaluation list) names, applied in that order to the decoded values as float32:
//   "scale_255"      value / 255
//   "normalise"      (value - mean[channel]) / stddev[channel]
//   "pad_crop_flip"  4 zeros on each side, a random crop of the original size, mirrored with probability 1/2; what
//                    is padded is 0 at this point of the list (train only; at most once)
// Channels are the first extent of a three-dimensional sample, else there is one. UserError listing the valid names.
std::unique_ptr<Transform> make_transform(const std::vector<std::string>& names, const spec::DataSpec& data,
                                          uint64_t seed);
std::vector<std::string> transform_names();

// Where pad_crop_flip takes a sample from: out(y, x) = padded(y + dy, x' + dx), x' = width - 1 - x if `flip`, else x.
struct CropFlip {
  int64_t dy = 0, dx = 0;
  bool flip = false;
};  // dy, dx in [0, 8]
CropFlip crop_flip_of(uint64_t seed, int64_t epoch, int64_t sample);

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
