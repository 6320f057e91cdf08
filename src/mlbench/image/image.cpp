#include "mlbench/image/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/image/formats.h"

namespace mlbench::image {

namespace {

struct Signature {
  std::string_view bytes;
  std::optional<Format> format;
  const char* name;
};
constexpr std::array kSignatures = {
    Signature{"\xFF\xD8\xFF", Format::kJpeg, "JPEG"},
    Signature{"\x89PNG\r\n\x1A\n", Format::kPng, "PNG"},
    Signature{"GIF8", std::nullopt, "GIF"},
    Signature{"BM", std::nullopt, "BMP"},
    Signature{"RIFF", std::nullopt, "WebP"},
    Signature{"II*", std::nullopt, "TIFF"},
    Signature{"MM", std::nullopt, "TIFF"},
    Signature{"\x1F\x8B", std::nullopt, "gzip"},
};

}  // namespace

// By the first bytes: of ImageNet's files, one that is named .JPEG is a PNG.
Format format_of(const EncodedImage& image) {
  const std::string_view bytes(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
  const auto* const found =
      std::ranges::find_if(kSignatures, [&](const Signature& signature) { return bytes.starts_with(signature.bytes); });
  if (found != kSignatures.end() && found->format) return *found->format;
  const std::string what = found != kSignatures.end() ? fmt::format("looks like {}", found->name)
                           : bytes.empty()            ? "is empty"
                                                      : "begins like no image";
  throw BadImage(image, what + ", expected a JPEG or PNG file");
}

void refuse_image(const EncodedImage& image, std::string_view reason) {
  throw BadImage(image, fmt::format("damaged image: {}", reason));
}

void check_part(const Box& part, const Size& size) {
  MLBENCH_CHECK(part.left >= 0 && part.top >= 0 && part.width > 0 && part.height > 0 &&
                    part.left + part.width <= size.width && part.top + part.height <= size.height,
                fmt::format("part {}x{} at ({}, {}) of an image of {}x{}", part.width, part.height, part.left, part.top,
                            size.width, size.height));
}

void check_size(const EncodedImage& image, const Size& size, const Limits& limits) {
  if (size.width <= 0 || size.height <= 0) refuse_image(image, "it has no pixels");
  if (size.width > limits.most_side || size.height > limits.most_side ||
      size.width * size.height > limits.most_pixels) {
    throw BadImage(image, fmt::format("{}x{} pixels, at most {} a side and {} in all are decoded", size.width,
                                      size.height, limits.most_side, limits.most_pixels));
  }
}

Size read_size(const EncodedImage& image, const Limits& limits) {
  return format_of(image) == Format::kJpeg ? read_jpeg_size(image, limits) : read_png_size(image, limits);
}

Pixels decode(const EncodedImage& image, const Limits& limits) {
  return format_of(image) == Format::kJpeg ? decode_jpeg(image, nullptr, 1, limits)
                                           : decode_png(image, nullptr, limits);
}

Pixels decode(const EncodedImage& image, const Box& part, const Limits& limits) {
  return format_of(image) == Format::kJpeg ? decode_jpeg(image, &part, 1, limits) : decode_png(image, &part, limits);
}

bool can_shrink(const EncodedImage& image) { return format_of(image) == Format::kJpeg; }

Size shrunk(const Size& size, int64_t divisor) {
  return {(size.width + divisor - 1) / divisor, (size.height + divisor - 1) / divisor};
}

Pixels decode_shrunk(const EncodedImage& image, const Box& part, int64_t divisor, const Limits& limits) {
  MLBENCH_CHECK(std::ranges::find(kDivisors, divisor) != std::end(kDivisors), fmt::format("divisor {}", divisor));
  if (divisor == 1) return decode(image, part, limits);
  MLBENCH_CHECK(can_shrink(image), "only a JPEG can be decoded smaller");
  return decode_jpeg(image, &part, divisor, limits);
}

}  // namespace mlbench::image
