#pragma once

// What happens to a sample on its way into a batch: decoding, augmentation and normalisation into float32.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/dataset/column.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {

// The values of a sample before its transform.
struct Sample {
  int64_t number = 0;  // in its split
  std::span<const int64_t> shape;
  ConstBufferView values;
};

// Augmentation depends only on (seed, epoch, sample number), never on rank or thread. A transform has no state: several
// threads may use one object.
class Transform {
 public:
  virtual ~Transform() = default;
  // Writes the sample as `out.size()` floats.
  virtual void apply(const Sample& sample, int64_t epoch, std::span<float> out) const = 0;
  // Whether samples of this column already are what apply() would write, so that batches may point into the cache.
  // Throws UserError when apply() would refuse them.
  virtual bool leaves_as_is(const dataset::FixedColumn&) const { return false; }
};

// The stages in `names` (the training or the evaluation list of DataSpec), applied in that order to the decoded values
// as float32:
//   "scale_255"      value / 255
//   "normalise"      (value - mean[channel]) / stddev[channel]
//   "pad_crop_flip"  4 zeros on each side, a random crop of the original size, mirrored with probability 1/2; the
//                    padding is 0 at this point of the list (train only; at most once)
// The channels are the first extent of a three-dimensional sample; any other sample has one channel. Throws UserError
// listing the valid names.
std::unique_ptr<Transform> make_transform(const std::vector<std::string>& names, const spec::DataSpec& data,
                                          uint64_t seed);

// Where pad_crop_flip takes a sample from: out(y, x) = padded(y + dy, x' + dx), where x' = width - 1 - x if `flip`,
// else x.
struct CropFlip {
  int64_t dy = 0, dx = 0;  // in [0, 8]
  bool flip = false;
};
CropFlip crop_flip_of(uint64_t seed, int64_t epoch, int64_t sample);

}  // namespace mlbench::data
