#pragma once

// What happens to a sample on its way into a batch: decoding, augmentation and normalisation into float32.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/dataset/column.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {

// A sample as it is stored.
struct Sample {
  int64_t number = 0;  // in its split
  std::span<const int64_t> shape;
  ConstBufferView values;
  std::string_view file = {};  // of an encoded image: how errors call it; `values` are the bytes of its file, uint8 [n]
};

// Augmentation depends only on (seed, epoch, sample number), never on rank or thread. A transform has no state: several
// threads may use one object.
class Transform {
 public:
  virtual ~Transform() = default;
  // The shape of what apply() writes, whatever the shape of the sample.
  virtual const std::vector<int64_t>& output_shape() const = 0;
  // Writes the sample as floats of the output shape. Throws UserError where it has a shape or type that the transform
  // does not take.
  virtual void apply(const Sample& sample, int64_t epoch, std::span<float> out) const = 0;
  // Whether samples of this column already are what apply() would write, so that batches may point into the cache.
  // Throws UserError when apply() would refuse them.
  virtual bool leaves_as_is(const dataset::FixedColumn&) const { return false; }
  // Says what leaves_as_is() says, of sparse rows, which no transform changes.
  virtual bool leaves_sparse(const dataset::SparseColumn&) const { return false; }
};

// The stages in `names` (the training or the evaluation list of DataSpec), applied in that order to the decoded values
// as float32:
//   "scale_255"      value / 255
//   "normalise"      (value - mean[channel]) / stddev[channel]
//   "pad_crop_flip"  data.pad zeros on each side, a random crop of the original size, mirrored with probability 1/2;
//                    the padding is 0 at this point of the list (train only)
//   "crop_flip"      a random crop of the size that data.sample_shape says, mirrored with probability 1/2 (train only)
//   "center_crop"    the middle, of that size; of an odd rest, the larger half is cut off at the end
//   "random_resized_crop"  a random part of an encoded image, resized and mirrored (image/crop.h; train only)
//   "resize_center_crop"   an encoded image resized to 8/7 of the sample's side, and the middle of that
// At most one of the last five. The output has data.sample_shape; only the crops of spec/crop.h take larger images, of
// which each may have another size. Encoded images are decoded first; the last two come first in their list, make
// squares, and do to samples that are not encoded what "crop_flip" and "center_crop" do. The channels are the first
// extent of a three-dimensional sample; any other sample has one channel. Throws UserError listing the valid names.
std::unique_ptr<Transform> make_transform(const std::vector<std::string>& names, const spec::DataSpec& data,
                                          uint64_t seed);

// Where a sample is taken from an image: out(y, x) = image(y + dy, x' + dx), where x' = width - 1 - x if `flip`, else
// x.
struct CropFlip {
  int64_t dy = 0, dx = 0;
  bool flip = false;
};
// The random crop of an image that is larger than the sample by so many rows and columns: dy in [0, spare_height], dx
// in [0, spare_width]. For pad_crop_flip the image is the padded one.
CropFlip crop_flip_of(uint64_t seed, int64_t epoch, int64_t sample, int64_t spare_height, int64_t spare_width);

}  // namespace mlbench::data
