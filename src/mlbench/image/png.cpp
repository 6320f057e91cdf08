#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/image/formats.h"

namespace mlbench::image {

namespace {

// libpng reports an error by a jump, as libjpeg does: jpeg.cpp.
struct PngSession {
  explicit PngSession(const EncodedImage& given) : image(given), rest(given.bytes) {}
  ~PngSession() { png_destroy_read_struct(&reader, &info, nullptr); }
  PngSession(const PngSession&) = delete;
  PngSession& operator=(const PngSession&) = delete;

  const EncodedImage& image;
  std::span<const std::byte> rest;
  png_structp reader = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump{};
  std::array<char, 200> text{};
};

template <typename Step>
void run(PngSession& session, const Step& step) {
  static_assert(std::is_trivially_destructible_v<Step>);
  if (setjmp(session.jump) != 0) refuse_image(session.image, session.text.data());
  step(session.reader, session.info);
}

void set_up(PngSession& session) {
  session.reader = png_create_read_struct(
      PNG_LIBPNG_VER_STRING, &session,
      [](png_structp reader, png_const_charp reason) {
        auto& of = *static_cast<PngSession*>(png_get_error_ptr(reader));
        std::strncpy(of.text.data(), reason, of.text.size() - 1);
        std::longjmp(of.jump, 1);
      },
      [](png_structp, png_const_charp) {});
  if (session.reader != nullptr) session.info = png_create_info_struct(session.reader);
  if (session.info == nullptr) throw IoError("cannot decode a PNG: out of memory");
  png_set_read_fn(session.reader, &session, [](png_structp reader, png_bytep out, size_t count) {
    auto& of = *static_cast<PngSession*>(png_get_io_ptr(reader));
    if (count > of.rest.size()) png_error(reader, "the file is truncated");
    std::memcpy(out, of.rest.data(), count);
    of.rest = of.rest.subspan(count);
  });
}

Size read_header(PngSession& session, const Limits& limits) {
  set_up(session);
  run(session, [](png_structp reader, png_infop info) {
    png_set_chunk_malloc_max(reader, 1 << 20);
    png_read_info(reader, info);
  });
  const Size size{png_get_image_width(session.reader, session.info),
                  png_get_image_height(session.reader, session.info)};
  check_size(session.image, size, limits);
  return size;
}

// Sets what makes RGB of 8 bits of every kind, without gamma and transparency.
void ask_for_rgb(PngSession& session) {
  const int depth = png_get_bit_depth(session.reader, session.info);
  const int colours = png_get_color_type(session.reader, session.info);
  if (depth == 16 && (colours & PNG_COLOR_MASK_COLOR) == 0) {
    throw BadImage(session.image, "grey PNG of 16 bits, expected at most 8");
  }
  run(session, [](png_structp reader, png_infop) {
    png_set_strip_16(reader);
    png_set_palette_to_rgb(reader);
    png_set_expand_gray_1_2_4_to_8(reader);
    png_set_gray_to_rgb(reader);
    png_set_strip_alpha(reader);
    png_set_interlace_handling(reader);
  });
  run(session, [](png_structp reader, png_infop info) { png_read_update_info(reader, info); });
}

}  // namespace

Size read_png_size(const EncodedImage& image, const Limits& limits) {
  PngSession session(image);
  return read_header(session, limits);
}

Pixels decode_png(const EncodedImage& image, const Box* part, const Limits& limits) {
  PngSession session(image);
  const Size whole = read_header(session, limits);
  if (part != nullptr) check_part(*part, whole);
  ask_for_rgb(session);
  const auto row_bytes = static_cast<size_t>(whole.width) * 3;
  MLBENCH_CHECK(png_get_rowbytes(session.reader, session.info) == row_bytes, "three bytes per pixel");
  Pixels pixels{whole, {}};
  pixels.values.resize(row_bytes * static_cast<size_t>(whole.height));
  std::vector<png_bytep> rows(static_cast<size_t>(whole.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.values.data() + y * row_bytes;
  run(session, [&](png_structp reader, png_infop) {
    png_read_image(reader, rows.data());
    png_read_end(reader, nullptr);
  });
  if (part == nullptr) return pixels;
  // Towards the front, in place.
  uint8_t* to = pixels.values.data();
  for (int64_t y = 0; y < part->height; ++y) {
    const uint8_t* from = rows[static_cast<size_t>(part->top + y)] + part->left * 3;
    std::memmove(to, from, static_cast<size_t>(part->width * 3));
    to += part->width * 3;
  }
  pixels.size = {part->width, part->height};
  pixels.values.resize(static_cast<size_t>(part->width * part->height * 3));
  return pixels;
}

}  // namespace mlbench::image
