#pragma once

// Encoded images in memory, decoded to RGB: JPEG by libjpeg-turbo and PNG by libpng, with the values that Pillow gives
// by Image.open(file).convert("RGB"). Orientations and colour profiles that a file names are not applied, as there.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::image {

// In pixels, as everything here.
struct Size {
  int64_t width = 0, height = 0;
  bool operator==(const Size&) const = default;
};

struct Box {
  int64_t left = 0, top = 0, width = 0, height = 0;
  bool operator==(const Box&) const = default;
};

// What a decoder takes. It compares with the header, before it takes memory for pixels. Beside the pixels of the part
// that is asked for, a progressive JPEG takes at most 8 bytes per pixel of the whole image, a PNG 4.
struct Limits {
  int64_t most_side = 65'500;        // that of libjpeg
  int64_t most_pixels = 89'478'485;  // above which Pillow warns of a decompression bomb
};

// A file's bytes, and the name by which errors call it. Both belong to the caller.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::string_view name;
};

// An image that cannot be decoded: damaged, of another kind, or beyond the limits. The text is "NAME: REASON".
class BadImage : public UserError {
 public:
  BadImage(const EncodedImage& image, const std::string& reason)
      : UserError(std::string(image.name) + ": " + reason), reason_(reason) {}
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Rows of pixels, each of three bytes: red, green, blue.
struct Pixels {
  Size size;
  std::vector<uint8_t> values;  // size.height * size.width * 3

  std::span<const uint8_t> row(int64_t y) const {
    return std::span(values).subspan(static_cast<size_t>(y * size.width * 3), static_cast<size_t>(size.width * 3));
  }
};

// What the first bytes say, whatever the name ends in. Throws BadImage (what it looks like) for anything else.
enum class Format { kJpeg, kPng };
Format format_of(const EncodedImage& image);
// How many components the header of a JPEG names: 1 (grey), 3 (colour) or 4 (CMYK). Throws BadImage as read_size()
// does. Bytes behind the header may be absent. Precondition: format_of() is kJpeg.
int read_jpeg_components(const EncodedImage& image, const Limits& limits = {});

// The size that the header names. Throws BadImage for what is neither JPEG nor PNG, for a damaged
// header and for sizes above the limits.
Size read_size(const EncodedImage& image, const Limits& limits = {});

// The whole image, or the pixels of `part`, which are those of the whole. Throws BadImage as read_size() does, and for
// an image that ends too early. As in Pillow, damage within the entropy-coded data of a JPEG shows in the pixels alone.
// Precondition: `part` is not empty and lies in the image. Safe on several threads.
Pixels decode(const EncodedImage& image, const Limits& limits = {});
Pixels decode(const EncodedImage& image, const Box& part, const Limits& limits = {});

// The image that is made smaller while it is decoded: a pixel of the result stands for `divisor` x `divisor` pixels,
// the last column and row for what is left. Only a JPEG can do so, by an inverse transform of fewer coefficients.
// Precondition: `divisor` is in kDivisors.
inline constexpr int64_t kDivisors[] = {8, 4, 2, 1};
bool can_shrink(const EncodedImage& image);
Size shrunk(const Size& size, int64_t divisor);
// Decodes as decode() does, with `part` in pixels of the result. Precondition: can_shrink(image), or a divisor of 1.
Pixels decode_shrunk(const EncodedImage& image, const Box& part, int64_t divisor, const Limits& limits = {});

}  // namespace mlbench::image
