#pragma once

// The decoders behind image.h, one per format; what they share. Internal to image/.

#include <cstdint>
#include <string_view>

#include "mlbench/image/image.h"

namespace mlbench::image {

// Throws BadImage "NAME: damaged image: REASON".
[[noreturn]] void refuse_image(const EncodedImage& image, std::string_view reason);

// Throws BadImage when the header's size is above the limits, or is empty.
void check_size(const EncodedImage& image, const Size& size, const Limits& limits);

// Checks that a part is not empty and lies in an image of that size.
void check_part(const Box& part, const Size& size);

Size read_jpeg_size(const EncodedImage& image, const Limits& limits);
Pixels decode_jpeg(const EncodedImage& image, const Box* part, int64_t divisor, const Limits& limits);

Size read_png_size(const EncodedImage& image, const Limits& limits);
Pixels decode_png(const EncodedImage& image, const Box* part, const Limits& limits);

}  // namespace mlbench::image
