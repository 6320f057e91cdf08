#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <type_traits>

// Needs <cstdio>.
#include <jpeglib.h>
// Needs jpeglib.h.
#include <jerror.h>

#include "mlbench/base/errors.h"
#include "mlbench/image/formats.h"

namespace mlbench::image {

namespace {

// A file of few bytes may name thousands of scans of a large image. Encoders write some ten.
constexpr int kMostScans = 100;

// Upsampled chroma at the edge of a decoded part lacks its neighbour; so many columns more are decoded and dropped.
constexpr int64_t kMargin = 4;

constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};

// libjpeg reports an error by a jump out of its functions. It goes to run(), over frames of libjpeg and of a step that
// has nothing to destroy.
struct JpegSession {
  explicit JpegSession(const EncodedImage& given) : image(given) {}
  ~JpegSession() { jpeg_destroy_decompress(&decoder); }
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  const EncodedImage& image;
  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  const char* reason = nullptr;  // where `text` is not it
  std::array<char, JMSG_LENGTH_MAX> text{};
};

JpegSession& session_of(j_common_ptr decoder) { return *static_cast<JpegSession*>(decoder->client_data); }

[[noreturn]] void leave(JpegSession& session, const char* reason) {
  session.reason = reason;
  std::longjmp(session.jump, 1);
}

template <typename Step>
void run(JpegSession& session, const Step& step) {
  static_assert(std::is_trivially_destructible_v<Step>);
  if (setjmp(session.jump) != 0) {
    refuse_image(session.image, session.reason != nullptr ? session.reason : session.text.data());
  }
  step(session.decoder);
}

void set_up(JpegSession& session) {
  jpeg_decompress_struct& decoder = session.decoder;
  decoder.err = jpeg_std_error(&session.errors);
  decoder.client_data = &session;
  session.errors.error_exit = [](j_common_ptr failed) {
    JpegSession& of = session_of(failed);
    (*failed->err->format_message)(failed, of.text.data());
    leave(of, nullptr);
  };
  session.errors.emit_message = [](j_common_ptr, int) {};  // warnings, which Pillow ignores too
  run(session, [](jpeg_decompress_struct& made) { jpeg_create_decompress(&made); });

  session.source.next_input_byte = reinterpret_cast<const JOCTET*>(session.image.bytes.data());
  session.source.bytes_in_buffer = session.image.bytes.size();
  session.source.init_source = [](j_decompress_ptr) {};
  session.source.term_source = [](j_decompress_ptr) {};
  session.source.resync_to_restart = jpeg_resync_to_restart;
  session.source.fill_input_buffer = [](j_decompress_ptr at) -> boolean {
    leave(session_of(reinterpret_cast<j_common_ptr>(at)), "the file is truncated");
  };
  session.source.skip_input_data = [](j_decompress_ptr at, long count) {
    if (count <= 0) return;
    if (static_cast<size_t>(count) > at->src->bytes_in_buffer) {
      leave(session_of(reinterpret_cast<j_common_ptr>(at)), "the file is truncated in its header");
    }
    at->src->next_input_byte += count;
    at->src->bytes_in_buffer -= static_cast<size_t>(count);
  };
  decoder.src = &session.source;
  session.progress.progress_monitor = [](j_common_ptr at) {
    if (reinterpret_cast<j_decompress_ptr>(at)->input_scan_number > kMostScans) {
      leave(session_of(at), "more than 100 scans");
    }
  };
  decoder.progress = &session.progress;
}

Size read_header(JpegSession& session, const Limits& limits) {
  set_up(session);
  run(session, [](jpeg_decompress_struct& decoder) { jpeg_read_header(&decoder, TRUE); });
  const Size size{session.decoder.image_width, session.decoder.image_height};
  check_size(session.image, size, limits);
  const int components = session.decoder.num_components;
  if (components != 1 && components != 3 && components != 4) {
    throw BadImage(session.image,
                   fmt::format("JPEG of {} components, expected 1 (grey), 3 (colour) or 4 (CMYK)", components));
  }
  return size;
}

// Whether the data has its end, so that a truncated file is refused whichever part is asked for. The marker cannot
// occur within entropy-coded data.
bool has_end(const JpegSession& session) {
  const std::span<const JOCTET> rest(session.source.next_input_byte, session.source.bytes_in_buffer);
  const auto found = std::find_end(rest.begin(), rest.end(), std::begin(kEndOfImage), std::end(kEndOfImage));
  return found != rest.end();
}

// As Pillow converts it: (255 - c) of what the file holds is c, as Adobe's programs write it.
void cmyk_to_rgb(const JSAMPLE* from, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i, from += 4, to += 3) {
    const int light = from[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - from[channel]) * light + 128;
      to[channel] = static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace

Size read_jpeg_size(const EncodedImage& image, const Limits& limits) {
  JpegSession session(image);
  return read_header(session, limits);
}

int read_jpeg_components(const EncodedImage& image, const Limits& limits) {
  JpegSession session(image);
  read_header(session, limits);
  return session.decoder.num_components;
}

Pixels decode_jpeg(const EncodedImage& image, const Box* part, int64_t divisor, const Limits& limits) {
  JpegSession session(image);
  const Size whole = shrunk(read_header(session, limits), divisor);
  if (!has_end(session)) refuse_image(image, "the file is truncated: its pixels have no end");
  const Box box = part != nullptr ? *part : Box{0, 0, whole.width, whole.height};
  check_part(box, whole);
  jpeg_decompress_struct& decoder = session.decoder;
  decoder.scale_num = 1;
  decoder.scale_denom = static_cast<unsigned>(divisor);
  decoder.out_color_space = decoder.num_components == 4 ? JCS_CMYK : JCS_RGB;

  // Columns come in whole blocks, so `first` may go back further.
  auto first = static_cast<JDIMENSION>(std::max<int64_t>(box.left - kMargin, 0));
  auto columns = static_cast<JDIMENSION>(std::min(box.left + box.width + kMargin, whole.width)) - first;
  run(session, [&](jpeg_decompress_struct& at) {
    jpeg_start_decompress(&at);
    jpeg_crop_scanline(&at, &first, &columns);
  });
  MLBENCH_CHECK(decoder.output_height == whole.height, "height of the scaled image");
  const auto components = static_cast<size_t>(decoder.output_components);
  std::vector<JSAMPLE> row(decoder.output_width * components);
  Pixels pixels{{box.width, box.height}, {}};
  pixels.values.resize(static_cast<size_t>(box.width * box.height * 3));
  const JSAMPLE* const begin = row.data() + (static_cast<size_t>(box.left) - first) * components;
  run(session, [&](jpeg_decompress_struct& at) {
    if (box.top > 0) jpeg_skip_scanlines(&at, static_cast<JDIMENSION>(box.top));
    uint8_t* to = pixels.values.data();
    for (int64_t y = 0; y < box.height; ++y, to += box.width * 3) {
      JSAMPROW target = row.data();
      jpeg_read_scanlines(&at, &target, 1);
      if (components == 4) {
        cmyk_to_rgb(begin, box.width, to);
      } else {
        std::copy_n(begin, box.width * 3, to);
      }
    }
  });
  return pixels;
}

}  // namespace mlbench::image
