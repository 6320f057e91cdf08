#pragma once

// Transforms that cut samples of data.sample_shape out of larger images. Without one of them, the data set must have
// samples of that shape.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/spec/task.h"

namespace mlbench::spec {

inline constexpr std::string_view kCrops[] = {"crop_flip", "center_crop", "random_resized_crop", "resize_center_crop"};

inline bool is_crop(std::string_view transform) { return std::ranges::find(kCrops, transform) != std::end(kCrops); }

// Whether a sample of shape `to` can be cut out of one of shape `from`: images (channels, height, width) of as many
// channels, no lower and no narrower.
inline bool can_crop(std::span<const int64_t> from, std::span<const int64_t> to) {
  return from.size() == 3 && to.size() == 3 && from[0] == to[0] && from[1] >= to[1] && from[2] >= to[2];
}

// Whether both the training and the evaluation samples of `data` are cut out of samples of shape `from`.
inline bool crops(const DataSpec& data, std::span<const int64_t> from) {
  const auto cut = [](const std::vector<std::string>& transforms) { return std::ranges::any_of(transforms, is_crop); };
  return cut(data.train_transform) && cut(data.eval_transform) && can_crop(from, data.sample_shape);
}

}  // namespace mlbench::spec
