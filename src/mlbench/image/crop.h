#pragma once

// What training and evaluation on ImageNet take of an image, as torchvision defines it: RandomResizedCrop and
// RandomHorizontalFlip; Resize and CenterCrop; then float32 planes, normalised. Sizes are those of squares.

#include <array>
#include <cstdint>
#include <span>

#include "mlbench/base/random.h"
#include "mlbench/image/image.h"

namespace mlbench::image {

struct RandomCropOptions {
  double least_area = 0.08, most_area = 1;             // of the image
  double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;  // width by height
};

struct RandomCrop {
  Box box;
  bool flip = false;  // left and right are exchanged after the resize
  bool operator==(const RandomCrop&) const = default;
};

// torchvision's RandomResizedCrop.get_params(), from our random numbers: ten tries to draw area and the logarithm of
// the ratio, then the largest centred part of an allowed ratio. The flip has probability 1/2. Precondition: the
// options are positive, least <= most.
RandomCrop draw_crop(const Size& size, const RandomCropOptions& options, RandomSequence random);
// Draws the crop as a function of (seed, epoch, sample) alone, as all augmentation is.
RandomCrop draw_crop(const Size& size, const RandomCropOptions& options, uint64_t seed, int64_t epoch, int64_t sample);

// The size whose shorter side is `shorter` (torchvision's Resize), and the square in its centre (CenterCrop, whose
// halves are rounded to even numbers).
struct CentreCrop {
  Size resized;
  Box window;
};
CentreCrop centre_crop(const Size& size, int64_t shorter, int64_t side);

// The float32 for each byte of a channel: (value / 255 - mean) / deviation, in float32 as torchvision computes it.
class PixelValues {
 public:
  // Throws UserError unless the deviations are positive.
  PixelValues(const std::array<double, 3>& mean, const std::array<double, 3>& deviation);
  float value(size_t channel, uint8_t byte) const { return table_[channel][byte]; }

 private:
  std::array<std::array<float, 256>, 3> table_;
};

struct CropOptions {
  int64_t side = 224;
  // A JPEG is made smaller by 2, 4 or 8 while it is decoded, where it stays no smaller than the result. Faster, but the
  // values differ from the exact ones: docs/images.md says how much.
  bool scaled_decoding = false;
  Limits limits = {};
};

// Decode the image and write three planes (red, green, blue) of side * side values to `out`. Throw as decode() does.
void write_training_crop(const EncodedImage& image, const RandomCrop& crop, const CropOptions& options,
                         const PixelValues& values, std::span<float> out);
void write_evaluation_crop(const EncodedImage& image, int64_t shorter, const CropOptions& options,
                           const PixelValues& values, std::span<float> out);
// These return the crops as bytes.
Pixels training_crop(const EncodedImage& image, const RandomCrop& crop, const CropOptions& options);
Pixels evaluation_crop(const EncodedImage& image, int64_t shorter, const CropOptions& options);

}  // namespace mlbench::image
