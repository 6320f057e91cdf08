#pragma once

// What becomes of a sample on its way into a batch: decode, augmentation and normalisation into float32.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {

// Augmentation depends on (seed, epoch, sample number) only, never on the rank. Const and without state: one object may
// serve several threads.
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

// Where pad_crop_flip takes a sample from: out(y, x) = padded(y + dy, x' + dx), x' = width - 1 - x if `flip`, else x.
struct CropFlip {
  int64_t dy = 0, dx = 0;  // in [0, 8]
  bool flip = false;
};
CropFlip crop_flip_of(uint64_t seed, int64_t epoch, int64_t sample);

}  // namespace mlbench::data
