#pragma once

// What the readers of containers share. Internal to image/index/.

#include <cstdint>
#include <string>
#include <string_view>

#include "mlbench/base/input.h"

namespace mlbench::image {

inline constexpr Input kImageList{"a list of images", 64 * inputs::kMiB};

// In lower case (ASCII).
std::string lower_extension(std::string_view extension);
// Whether the name ends in .jpg, .jpeg or .png, in any case.
bool has_image_name(std::string_view name);

// Throws UserError "WHERE: label ..., expected 0 to N" unless `label` is one of so many.
int64_t checked_label(int64_t label, int64_t labels, const std::string& where);
// Checks a text of digits as checked_label() checks a number, and returns its label.
int64_t label_in(std::string_view text, int64_t labels, const std::string& where);

}  // namespace mlbench::image
