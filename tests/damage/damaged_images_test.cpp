// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

// JPEG files that are odd, cut or damaged are refused where libjpeg itself has not all of their pixels. Elsewhere, the
// pixels are equal.

#include <fmt/format.h>
#include <gmock/gmock.h>
// Needs jpeglib.h.
#include <jerror.h>

#include <csetjmp>
#include <map>

#include "mlbench/base/test_error.h"

namespace mlbench::image {
namespace {

using namespace std::string_literals;
using test::encoded;

constexpr Limits kLimits{.most_pixels = 100'000};  // so that a damaged size costs no time
constexpr int kDamagedOfEachKind = 300;

// ---- libjpeg, used as its documentation says ------------------------------------------------------------------------

enum class Verdict {
  kTaken,
  kRefused,        // an error, or a premature end, before the last row
  kRefusedBehind,  // the same behind it, where our decoder does not look
};

struct PlainDecoder {
  ~PlainDecoder() { jpeg_destroy_decompress(&decoder); }
  void refuse() { verdict = all_rows ? Verdict::kRefusedBehind : Verdict::kRefused; }

  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  Verdict verdict = Verdict::kTaken;
  bool all_rows = false;
  int components = 0;
  std::vector<uint8_t> values;
};

PlainDecoder& plain(j_common_ptr decoder) { return *static_cast<PlainDecoder*>(decoder->client_data); }

// Not inlined into the caller of setjmp(). It has nothing to destroy where libjpeg jumps out of it.
[[gnu::noinline]] void read_rows(const std::string& file, PlainDecoder& to) {
  jpeg_mem_src(&to.decoder, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&to.decoder, TRUE);
  const int64_t width = to.decoder.image_width, height = to.decoder.image_height;
  if (width * height > kLimits.most_pixels || std::max(width, height) > kLimits.most_side) {
    return to.refuse();
  }
  to.components = to.decoder.num_components;
  to.decoder.out_color_space = to.components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&to.decoder);
  const auto stride = static_cast<size_t>(width * to.decoder.output_components);
  to.values.resize(stride * static_cast<size_t>(height));
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    JSAMPROW row = to.values.data() + y * stride;
    jpeg_read_scanlines(&to.decoder, &row, 1);
  }
  to.all_rows = true;
  jpeg_finish_decompress(&to.decoder);
}

void decode_plainly(const std::string& file, PlainDecoder& to) {
  to.decoder.err = jpeg_std_error(&to.errors);
  to.decoder.client_data = &to;
  to.errors.error_exit = [](j_common_ptr at) { std::longjmp(plain(at).jump, 1); };
  to.errors.emit_message = [](j_common_ptr at, int level) {
    PlainDecoder& of = plain(at);
    if (level < 0 && at->err->msg_code == JWRN_JPEG_EOF && of.verdict == Verdict::kTaken) of.refuse();
  };
  jpeg_create_decompress(&to.decoder);
  if (setjmp(to.jump) == 0) {
    read_rows(file, to);
  } else if (to.verdict == Verdict::kTaken) {
    to.refuse();
  }
}

// ---- files ----------------------------------------------------------------------------------------------------------

// The same coefficients, coded in the other way that the standard has.
std::string with_arithmetic_coding(const std::string& file) {
  jpeg_error_mgr errors;
  jpeg_decompress_struct from;
  jpeg_compress_struct to;
  from.err = to.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&from);
  jpeg_create_compress(&to);
  jpeg_mem_src(&from, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&from, TRUE);
  jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&from);
  jpeg_copy_critical_parameters(&from, &to);
  to.arith_code = TRUE;
  if (from.progressive_mode) jpeg_simple_progression(&to);
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&to, &out, &bytes);
  jpeg_write_coefficients(&to, coefficients);
  jpeg_finish_compress(&to);
  const std::string coded(reinterpret_cast<char*>(out), bytes);
  std::free(out);
  jpeg_destroy_compress(&to);
  jpeg_destroy_decompress(&from);
  return coded;
}

// By its name, in the order of the names.
std::map<std::string, std::string> whole_files() {
  std::map<std::string, std::string> files;
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    const std::string file = files[kind.name] = test::patterned_jpeg(kind, {40, 24});
    if (kind.components != 4) files[kind.name + "-arithmetic"s] = with_arithmetic_coding(file);
  }
  return files;
}

// Changes one thing, as broken disks and programs do. The first three bytes say that it is a JPEG.
std::string damage(std::string file, RandomSequence& random) {
  const auto below = [&](size_t bound) { return static_cast<size_t>(random.below(bound)); };
  const size_t at = 3 + below(file.size() - 3), count = 1 + below(std::min<size_t>(file.size() - at, 40));
  switch (below(6)) {
    case 0:
      return file.substr(0, at);
    case 1:
      file[at] ^= static_cast<char>(1 << below(8));
      return file;
    case 2:
      return file.replace(at, count, count, '\0');
    case 3:
      return file.erase(at, count);
    case 4:
      return file.insert(at, file.substr(at, count));
    default:
      return file.replace(at, 2, {'\xFF', static_cast<char>(0xC0 + below(0x40))});  // a marker
  }
}

// ---- tests ----------------------------------------------------------------------------------------------------------

class Counts {
 public:
  // Compares the verdicts on the whole image and on its first pixel and, of what is taken, the pixels.
  void compare(const std::string& file, const std::string& name) {
    PlainDecoder expected;
    decode_plainly(file, expected);
    ++counts_[expected.verdict];
    const std::string of_part = error_of([&] { decode(encoded(file), Box{0, 0, 1, 1}, kLimits); });
    const std::string of_whole = error_of([&] {
      const Pixels pixels = decode(encoded(file), kLimits);
      if (expected.all_rows && expected.components != 4) {
        EXPECT_EQ(pixels.values, expected.values) << name;
      }
    });
    EXPECT_EQ(of_part == "no error", of_whole == "no error") << name << ": " << of_part << "; " << of_whole;
    if (expected.verdict == Verdict::kRefusedBehind) return;
    EXPECT_EQ(of_whole == "no error", expected.verdict == Verdict::kTaken) << name << ": " << of_whole;
  }
  int operator[](Verdict verdict) const { return counts_.at(verdict); }

 private:
  std::map<Verdict, int> counts_ = {{Verdict::kTaken, 0}, {Verdict::kRefused, 0}, {Verdict::kRefusedBehind, 0}};
};

TEST(DamagedImages, AreRefusedAsByLibjpeg) {
  Counts counts;
  for (const auto& [name, file] : whole_files()) {
    counts.compare(file, name);
    ASSERT_EQ(counts[Verdict::kRefused] + counts[Verdict::kRefusedBehind], 0) << name;
  }
  for (const auto& [name, file] : whole_files()) {
    RandomSequence random(7);
    for (int number = 0; number < kDamagedOfEachKind; ++number) {
      counts.compare(damage(file, random), fmt::format("{} {}", name, number));
    }
  }
  for (const Verdict verdict : {Verdict::kTaken, Verdict::kRefused, Verdict::kRefusedBehind}) {
    EXPECT_GT(counts[verdict], 100);
    fmt::print("{} ", counts[verdict]);
  }
  fmt::print("files are taken by libjpeg, refused before their last row, refused behind it\n");
}

// What the standard has beside the usual, and what is no JPEG in spite of its name.
TEST(DamagedImages, OddOnesAreRefusedAsByLibjpeg) {
  Counts counts;
  const std::string file = whole_files().at("444");
  const size_t frame = file.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  std::string twelve_bits = file;
  twelve_bits[frame + 4] = 12;
  counts.compare(twelve_bits, "12 bits");
  for (const int process : {0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF}) {  // lossless and hierarchical
    std::string other = file;
    other[frame + 1] = static_cast<char>(process);
    counts.compare(other, fmt::format("{:#x}", process));
  }
  for (const std::string& content :
       {""s, "\xFF\xD8"s, "\xFF\xD8\xFF\xD9"s, "GIF89a"s, "II*\0"s, std::string(99, '\0')}) {
    counts.compare(content, fmt::format("content of {} bytes", content.size()));
  }
  EXPECT_EQ(counts[Verdict::kRefused], 15);
  EXPECT_EQ(counts[Verdict::kTaken], 0);
}

}  // namespace
}  // namespace mlbench::image
