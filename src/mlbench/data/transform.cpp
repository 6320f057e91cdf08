#include "mlbench/data/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"
#include "mlbench/image/crop.h"
#include "mlbench/spec/crop.h"

namespace mlbench::data {

namespace {

// A stage that changes each value in its place.
using Pointwise = std::function<float(float value, size_t channel)>;

struct Context {
  const spec::DataSpec& data;
  size_t channels;
};

Pointwise make_scale_255(const Context&) {
  return [](float value, size_t) { return value / 255.0F; };
}

Pointwise make_normalise(const Context& context) {
  const auto& mean = context.data.mean;
  const auto& stddev = context.data.stddev;
  if (mean.size() != context.channels || stddev.size() != context.channels) {
    throw UserError(fmt::format("transform normalise: {} means and {} deviations, expected one of each for {} channels",
                                mean.size(), stddev.size(), context.channels));
  }
  if (std::ranges::any_of(stddev, [](double value) { return !(value > 0); })) {
    throw UserError(fmt::format("transform normalise: deviations {} must be positive", fmt::join(stddev, ", ")));
  }
  std::vector<float> means(mean.begin(), mean.end());
  std::vector<float> deviations(stddev.begin(), stddev.end());
  return [means = std::move(means), deviations = std::move(deviations)](float value, size_t channel) {
    return (value - means[channel]) / deviations[channel];
  };
}

// A sample to be moved, and by how much it is larger than the output.
struct Movable {
  uint64_t seed;
  int64_t epoch, sample, spare_height, spare_width, pad;
};
using Move = CropFlip (*)(const Movable& image);

// The offsets are those within the image, from which the padding sticks out.
CropFlip pad_crop_flip(const Movable& image) {
  const CropFlip padded = crop_flip_of(image.seed, image.epoch, image.sample, 2 * image.pad, 2 * image.pad);
  return {padded.dy - image.pad, padded.dx - image.pad, padded.flip};
}
CropFlip crop_flip(const Movable& image) {
  return crop_flip_of(image.seed, image.epoch, image.sample, image.spare_height, image.spare_width);
}
CropFlip center_crop(const Movable& image) { return {image.spare_height / 2, image.spare_width / 2}; }

// A square of an encoded image. The random part follows from (seed, epoch, sample).
struct Cut {
  uint64_t seed;
  int64_t epoch, sample, side;
};
using CutEncoded = image::Pixels (*)(const image::EncodedImage& image, const Cut& cut);

image::Pixels random_resized_crop(const image::EncodedImage& image, const Cut& cut) {
  const image::RandomCrop crop = image::draw_crop(image::read_size(image), {}, cut.seed, cut.epoch, cut.sample);
  return image::training_crop(image, crop, {.side = cut.side});
}
// The shorter side of 256 for a square of 224, and in this ratio for others.
image::Pixels resize_center_crop(const image::EncodedImage& image, const Cut& cut) {
  return image::evaluation_crop(image, (cut.side * 16 + 7) / 14, {.side = cut.side});
}

// A stage changes values in place, or moves them. `cut` does so while an image is decoded.
struct Row {
  const char* name;
  Pointwise (*make)(const Context&);
  Move move;
  CutEncoded cut = nullptr;
};
constexpr std::array kStages = {
    Row{"scale_255", make_scale_255, nullptr},
    Row{"normalise", make_normalise, nullptr},
    Row{"pad_crop_flip", nullptr, pad_crop_flip},
    Row{"crop_flip", nullptr, crop_flip},
    Row{"center_crop", nullptr, center_crop},
    Row{"random_resized_crop", nullptr, crop_flip, random_resized_crop},
    Row{"resize_center_crop", nullptr, center_crop, resize_center_crop},
};

// Applies all stages in one pass. For uint8, a table per channel has the result of all stages for each value: exact by
// construction.
class StageTransform final : public Transform {
 public:
  StageTransform(const std::vector<std::string>& names, const spec::DataSpec& data, uint64_t seed)
      : shape_(data.sample_shape), seed_(seed), pad_(data.pad) {
    if (shape_.empty() || std::ranges::any_of(shape_, [](int64_t extent) { return extent <= 0; })) {
      throw UserError(fmt::format("data.sample_shape [{}]: expected positive extents", fmt::join(shape_, ", ")));
    }
    channels_ = shape_.size() == 3 ? static_cast<size_t>(shape_.front()) : 1;
    volume_ = volume_of(shape_);
    for (const std::string& name : names) add_stage(name, data);

    padding_.resize(channels_);
    tables_.resize(channels_);
    for (size_t channel = 0; channel < channels_; ++channel) {
      for (size_t value = 0; value < 256; ++value) {
        tables_[channel][value] = through(0, static_cast<float>(value), channel);
      }
      if (moved_at_) padding_[channel] = through(*moved_at_, 0.0F, channel);
    }
  }

  const std::vector<int64_t>& output_shape() const override { return shape_; }

  void apply(const Sample& sample, int64_t epoch, std::span<float> out) const override {
    MLBENCH_CHECK(static_cast<int64_t>(out.size()) == volume_, "size of the output");
    if (!sample.file.empty()) return apply_encoded(sample, epoch, out.data());
    check(sample.shape, sample.values.dtype);
    const auto move = [&] { return move_of(sample.shape, sample.number, epoch); };
    if (sample.values.dtype == DType::kUInt8) {
      write<kPlanes>(static_cast<const uint8_t*>(sample.values.data), sample.shape, move, out.data());
    } else {
      write<kPlanes>(static_cast<const float*>(sample.values.data), sample.shape, move, out.data());
    }
  }

  bool leaves_as_is(const dataset::FixedColumn& column) const override {
    check(column.shape, column.values.dtype);
    return column.values.dtype == DType::kFloat32 && stages_.empty() && !moved_at_;
  }

  bool leaves_sparse(const dataset::SparseColumn& column) const override {
    check(std::span(&column.dimension, 1), DType::kFloat32);
    return stages_.empty() && !moved_at_;
  }

 private:
  enum Layout : uint8_t { kPlanes, kPixels };  // each channel's values back to back, or each pixel's

  void check(std::span<const int64_t> shape, DType dtype) const {
    const bool fits = crops_ ? spec::can_crop(shape, shape_) : std::ranges::equal(shape, shape_);
    if (!fits) {
      throw UserError(fmt::format("data set has samples of [{}], the task expects [{}]{}", fmt::join(shape, ", "),
                                  fmt::join(shape_, ", "), crops_ ? " or larger images" : ""));
    }
    if (dtype != DType::kUInt8 && dtype != DType::kFloat32) {
      throw UserError(fmt::format("no transform for values of type {}: uint8, float32", name_of(dtype)));
    }
  }

  void add_stage(const std::string& name, const spec::DataSpec& data) {
    const Row& row = row_named(kStages, "transform", name);
    if (row.make != nullptr) {
      stages_.push_back(row.make({data, channels_}));
      return;
    }
    if (moved_at_) throw UserError(fmt::format("transform {}: a list may have only one that moves values", name));
    if (shape_.size() != 3) {
      throw UserError(fmt::format("transform {}: samples of [{}], expected three dimensions (channels, height, width)",
                                  name, fmt::join(shape_, ", ")));
    }
    if (row.cut != nullptr && (!stages_.empty() || shape_[1] != shape_[2])) {
      throw UserError(
          fmt::format("transform {}: expected first in its list, and samples with as many rows as columns, "
                      "given [{}]",
                      name, fmt::join(shape_, ", ")));
    }
    moved_at_ = stages_.size();
    move_ = row.move;
    cut_ = row.cut;
    crops_ = spec::is_crop(name);
  }

  float through(size_t first, float value, size_t channel) const {
    for (size_t stage = first; stage < stages_.size(); ++stage) value = stages_[stage](value, channel);
    return value;
  }

  float value_of(uint8_t raw, size_t channel) const { return tables_[channel][raw]; }
  float value_of(float raw, size_t channel) const { return through(0, raw, channel); }

  CropFlip move_of(std::span<const int64_t> shape, int64_t sample, int64_t epoch) const {
    return move_({seed_, epoch, sample, shape[1] - shape_[1], shape[2] - shape_[2], pad_});
  }

  void apply_encoded(const Sample& sample, int64_t epoch, float* to) const {
    if (shape_.size() != 3 || channels_ != 3) {
      throw UserError(fmt::format("images have 3 channels, the task expects samples of [{}]", fmt::join(shape_, ", ")));
    }
    const image::EncodedImage encoded{
        {static_cast<const std::byte*>(sample.values.data), static_cast<size_t>(sample.values.count)}, sample.file};
    const image::Pixels pixels =
        cut_ != nullptr ? cut_(encoded, {seed_, epoch, sample.number, shape_[1]}) : image::decode(encoded);
    const std::array shape = {int64_t{3}, pixels.size.height, pixels.size.width};
    check(shape, DType::kUInt8);
    const auto move = [&] { return cut_ != nullptr ? CropFlip() : move_of(shape, sample.number, epoch); };
    write<kPixels>(pixels.values.data(), shape, move, to);
  }

  // Writes the values at `from`, through all stages. `move()` is called where a stage moves them.
  template <Layout layout, typename T, typename MoveOf>
  void write(const T* from, std::span<const int64_t> from_shape, const MoveOf& move_of, float* to) const {
    constexpr int64_t kStep = layout == kPlanes ? 1 : 3;  // from a value to the next one of its channel
    if (!moved_at_) {
      const int64_t plane = volume_ / static_cast<int64_t>(channels_);
      for (size_t channel = 0; channel < channels_; ++channel, to += plane) {
        const T* values = from + static_cast<int64_t>(channel) * (layout == kPlanes ? plane : 1);
        for (int64_t i = 0; i < plane; ++i) to[i] = value_of(values[i * kStep], channel);
      }
      return;
    }
    const int64_t height = shape_[1], width = shape_[2];
    const int64_t from_height = from_shape[1], from_width = from_shape[2];
    const CropFlip move = move_of();
    // The columns [first, last) of the output lie within the image: column x is its column start + x * step.
    const int64_t start = move.flip ? move.dx + width - 1 : move.dx, step = move.flip ? -1 : 1;
    const int64_t before = move.flip ? move.dx + width - from_width : -move.dx;
    const int64_t first = std::clamp<int64_t>(before, 0, width);
    const int64_t last = std::clamp<int64_t>(before + from_width, first, width);
    for (size_t channel = 0; channel < channels_; ++channel) {
      const T* values = from + static_cast<int64_t>(channel) * (layout == kPlanes ? from_height * from_width : 1);
      for (int64_t y = 0; y < height; ++y, to += width) {
        const int64_t from_y = y + move.dy;
        const bool inside = from_y >= 0 && from_y < from_height;
        const int64_t begin = inside ? first : width, end = inside ? last : width;
        std::fill(to, to + begin, padding_[channel]);
        for (int64_t x = begin; x < end; ++x) {
          to[x] = value_of(values[(from_y * from_width + start + x * step) * kStep], channel);
        }
        std::fill(to + end, to + width, padding_[channel]);
      }
    }
  }

  std::vector<int64_t> shape_;
  uint64_t seed_;
  int64_t pad_;
  size_t channels_ = 1;
  int64_t volume_ = 0;
  std::vector<Pointwise> stages_;
  std::optional<size_t> moved_at_;              // the stage that moves values comes before this one
  Move move_ = nullptr;                         // that stage
  CutEncoded cut_ = nullptr;                    // the same of encoded images, where it is done while they are decoded
  bool crops_ = false;                          // whether it takes larger images
  std::vector<std::array<float, 256>> tables_;  // [channel][raw value]
  std::vector<float> padding_;                  // [channel]
};

}  // namespace

CropFlip crop_flip_of(uint64_t seed, int64_t epoch, int64_t sample, int64_t spare_height, int64_t spare_width) {
  const uint64_t key = derive_key(seed, {kAugmentStream, static_cast<uint64_t>(epoch)});
  const auto block = philox(key, static_cast<uint64_t>(sample), 0);
  const auto offset = [](uint32_t bits, int64_t spare) {
    return static_cast<int64_t>(bits * static_cast<uint64_t>(spare + 1) >> 32);
  };
  return {offset(block[0], spare_height), offset(block[1], spare_width), (block[2] & 1) != 0};
}

std::unique_ptr<Transform> make_transform(const std::vector<std::string>& names, const spec::DataSpec& data,
                                          uint64_t seed) {
  return std::make_unique<StageTransform>(names, data, seed);
}

}  // namespace mlbench::data
