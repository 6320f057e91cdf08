#include "mlbench/image/crop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/image/resample.h"

namespace mlbench::image {

namespace {

constexpr int kTries = 10;

double uniform_between(RandomSequence& random, double least, double most) {
  return least + random.uniform() * (most - least);
}

// As Python's round(): halves go to the even number.
int64_t to_nearest(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

// What torchvision falls back to: the largest centred part whose ratio is allowed.
Box central_part(const Size& size, const RandomCropOptions& options) {
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  Box box{0, 0, size.width, size.height};
  if (ratio < options.least_ratio) {
    box.height = std::max<int64_t>(to_nearest(static_cast<double>(size.width) / options.least_ratio), 1);
  } else if (ratio > options.most_ratio) {
    box.width = std::max<int64_t>(to_nearest(static_cast<double>(size.height) * options.most_ratio), 1);
  }
  box.left = (size.width - box.width) / 2;
  box.top = (size.height - box.height) / 2;
  return box;
}

// Where the pixels of a result come from: a part of the image, of which `resize` makes the result. The part is in
// pixels of the image that was made smaller by `divisor` while it was decoded.
struct CropPlan {
  int64_t divisor;
  Resize resize;
  int64_t left, top;  // of what `resize` takes for the whole image
};

// The largest divisor that leaves `part` no smaller than `to`.
int64_t divisor_for(const EncodedImage& image, const Size& part, const Size& to, const CropOptions& options) {
  if (!options.scaled_decoding || !can_shrink(image)) return 1;
  return *std::ranges::find_if(kDivisors, [&](int64_t divisor) {
    return divisor == 1 || (part.width >= to.width * divisor && part.height >= to.height * divisor);
  });
}

// Edges of `box` in an image that was made smaller.
Edges edges_of(const Box& box, int64_t divisor) {
  const auto scaled = [&](int64_t at) {
    return static_cast<float>(static_cast<double>(at) / static_cast<double>(divisor));
  };
  return {scaled(box.left), scaled(box.top), scaled(box.left + box.width), scaled(box.top + box.height)};
}

// The filter never looks beyond the box: torchvision cuts it out before it resizes. In a smaller image the pixels at
// the edges of the box belong to it in part, and count as such.
CropPlan plan_training(const EncodedImage& image, const Box& box, const CropOptions& options) {
  const Size to{options.side, options.side};
  const Box all{0, 0, options.side, options.side};
  const int64_t divisor = divisor_for(image, {box.width, box.height}, to, options);
  if (divisor == 1) {
    return {1, Resize({box.width, box.height}, edges_of({0, 0, box.width, box.height}, 1), to, all), box.left, box.top};
  }
  return {divisor, Resize(shrunk(read_size(image, options.limits), divisor), edges_of(box, divisor), to, all), 0, 0};
}

CropPlan plan_evaluation(const EncodedImage& image, int64_t shorter, const CropOptions& options) {
  const Size size = read_size(image, options.limits);
  const CentreCrop crop = centre_crop(size, shorter, options.side);
  const int64_t divisor = divisor_for(image, size, crop.resized, options);
  const Edges whole = edges_of({0, 0, size.width, size.height}, divisor);
  return {divisor, Resize(shrunk(size, divisor), whole, crop.resized, crop.window), 0, 0};
}

// Decodes what the plan needs, and calls take(y, row) with each row of the result.
template <typename Take>
void for_rows(const EncodedImage& image, CropPlan plan, const CropOptions& options, const Take& take) {
  Box part = plan.resize.needed();
  part.left += plan.left;
  part.top += plan.top;
  plan.resize.set_pixels(decode_shrunk(image, part, plan.divisor, options.limits));
  std::vector<uint8_t> row(static_cast<size_t>(options.side * 3));
  for (int64_t y = 0; y < options.side; ++y) {
    plan.resize.row(y, row);
    take(y, std::span<const uint8_t>(row));
  }
}

void write_planes(const EncodedImage& image, CropPlan plan, bool flip, const CropOptions& options,
                  const PixelValues& values, std::span<float> out) {
  const int64_t side = options.side;
  MLBENCH_CHECK(std::ssize(out) == 3 * side * side, "size of the output");
  for_rows(image, std::move(plan), options, [&](int64_t y, std::span<const uint8_t> row) {
    for (size_t channel = 0; channel < 3; ++channel) {
      float* to = out.data() + (static_cast<int64_t>(channel) * side + y) * side;
      const uint8_t* from = row.data() + channel;
      for (int64_t x = 0; x < side; ++x, from += 3) to[flip ? side - 1 - x : x] = values.value(channel, *from);
    }
  });
}

Pixels to_pixels(const EncodedImage& image, CropPlan plan, bool flip, const CropOptions& options) {
  Pixels pixels{{options.side, options.side}, {}};
  pixels.values.resize(static_cast<size_t>(options.side * options.side * 3));
  for_rows(image, std::move(plan), options, [&](int64_t y, std::span<const uint8_t> row) {
    for (int64_t x = 0; x < options.side; ++x) {
      const int64_t target = y * options.side + (flip ? options.side - 1 - x : x);
      std::copy_n(row.begin() + x * 3, 3, pixels.values.begin() + target * 3);
    }
  });
  return pixels;
}

}  // namespace

RandomCrop draw_crop(const Size& size, const RandomCropOptions& options, RandomSequence random) {
  RandomCrop crop;
  crop.flip = (random.next_u32() & 1) != 0;
  const double area = static_cast<double>(size.width) * static_cast<double>(size.height);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double target = area * uniform_between(random, options.least_area, options.most_area);
    const double ratio = std::exp(uniform_between(random, std::log(options.least_ratio), std::log(options.most_ratio)));
    const int64_t width = to_nearest(std::sqrt(target * ratio)), height = to_nearest(std::sqrt(target / ratio));
    if (width <= 0 || width > size.width || height <= 0 || height > size.height) continue;
    const auto top = static_cast<int64_t>(random.below(static_cast<uint64_t>(size.height - height + 1)));
    const auto left = static_cast<int64_t>(random.below(static_cast<uint64_t>(size.width - width + 1)));
    crop.box = {left, top, width, height};
    return crop;
  }
  crop.box = central_part(size, options);
  return crop;
}

RandomCrop draw_crop(const Size& size, const RandomCropOptions& options, uint64_t seed, int64_t epoch, int64_t sample) {
  const uint64_t key = derive_key(seed, {kAugmentStream, static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample)});
  return draw_crop(size, options, RandomSequence(key));
}

CentreCrop centre_crop(const Size& size, int64_t shorter, int64_t side) {
  MLBENCH_CHECK(side > 0 && side <= shorter, fmt::format("a square of {} in an image of {}", side, shorter));
  const auto longer = [&](int64_t long_side, int64_t short_side) {
    return static_cast<int64_t>(static_cast<double>(shorter * long_side) / static_cast<double>(short_side));
  };
  CentreCrop crop;
  crop.resized = size.width <= size.height ? Size{shorter, longer(size.height, size.width)}
                                           : Size{longer(size.width, size.height), shorter};
  crop.window = {to_nearest(static_cast<double>(crop.resized.width - side) / 2),
                 to_nearest(static_cast<double>(crop.resized.height - side) / 2), side, side};
  return crop;
}

PixelValues::PixelValues(const std::array<double, 3>& mean, const std::array<double, 3>& deviation) {
  if (std::ranges::any_of(deviation, [](double value) { return !(value > 0); })) {
    throw UserError(fmt::format("deviations {}, {}, {} of the channels: expected positive numbers", deviation[0],
                                deviation[1], deviation[2]));
  }
  for (size_t channel = 0; channel < 3; ++channel) {
    const auto middle = static_cast<float>(mean[channel]), unit = static_cast<float>(deviation[channel]);
    for (size_t byte = 0; byte < 256; ++byte) {
      table_[channel][byte] = (static_cast<float>(byte) / 255.0F - middle) / unit;
    }
  }
}

void write_training_crop(const EncodedImage& image, const RandomCrop& crop, const CropOptions& options,
                         const PixelValues& values, std::span<float> out) {
  write_planes(image, plan_training(image, crop.box, options), crop.flip, options, values, out);
}

void write_evaluation_crop(const EncodedImage& image, int64_t shorter, const CropOptions& options,
                           const PixelValues& values, std::span<float> out) {
  write_planes(image, plan_evaluation(image, shorter, options), false, options, values, out);
}

Pixels training_crop(const EncodedImage& image, const RandomCrop& crop, const CropOptions& options) {
  return to_pixels(image, plan_training(image, crop.box, options), crop.flip, options);
}

Pixels evaluation_crop(const EncodedImage& image, int64_t shorter, const CropOptions& options) {
  return to_pixels(image, plan_evaluation(image, shorter, options), false, options);
}

}  // namespace mlbench::image
