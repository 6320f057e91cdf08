#pragma once

// For tests: small JPEG files made by libjpeg, real ones, and what Pillow makes of them.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

// Needs <cstdio>.
#include <jpeglib.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/random.h"
#include "mlbench/base/sha256.h"
#include "mlbench/image/image.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::image::test {

struct JpegKind {
  const char* name;
  int components = 3;                // 1: grey, 3: colour, 4: CMYK
  int horizontal = 2, vertical = 2;  // sampling of the first component
  J_COLOR_SPACE stored = JCS_YCbCr;  // for 3 and 4 components
  bool progressive = false;
  int restart_rows = 0;
};

inline const std::vector<JpegKind>& jpeg_kinds() {
  static const std::vector<JpegKind> kinds = {{.name = "420"},
                                              {.name = "422", .vertical = 1},
                                              {.name = "444", .horizontal = 1, .vertical = 1},
                                              {.name = "440", .horizontal = 1},
                                              {.name = "411", .horizontal = 4, .vertical = 1},
                                              {.name = "rgb", .horizontal = 1, .vertical = 1, .stored = JCS_RGB},
                                              {.name = "grey", .components = 1},
                                              {.name = "progressive", .progressive = true},
                                              {.name = "restart", .restart_rows = 1},
                                              {.name = "cmyk", .components = 4, .stored = JCS_CMYK},
                                              {.name = "ycck", .components = 4, .stored = JCS_YCCK}};
  return kinds;
}

// Encodes `values` (components per pixel). Without a setjmp: the test ends where libjpeg refuses.
inline std::string encode_jpeg(const JpegKind& kind, const Size& size, const std::vector<uint8_t>& values,
                               int quality = 90) {
  jpeg_error_mgr errors;
  jpeg_compress_struct encoder;
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&encoder, &out, &bytes);
  encoder.image_width = static_cast<JDIMENSION>(size.width);
  encoder.image_height = static_cast<JDIMENSION>(size.height);
  encoder.input_components = kind.components;
  encoder.in_color_space = kind.components == 1 ? JCS_GRAYSCALE : kind.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  if (kind.components != 1) jpeg_set_colorspace(&encoder, kind.stored);
  jpeg_set_quality(&encoder, quality, TRUE);
  if (kind.components != 1) {
    encoder.comp_info[0].h_samp_factor = kind.horizontal;
    encoder.comp_info[0].v_samp_factor = kind.vertical;
    if (kind.components == 4) {
      encoder.comp_info[3].h_samp_factor = kind.horizontal;
      encoder.comp_info[3].v_samp_factor = kind.vertical;
    }
  }
  encoder.restart_in_rows = kind.restart_rows;
  if (kind.progressive) jpeg_simple_progression(&encoder);
  jpeg_start_compress(&encoder, TRUE);
  for (int64_t y = 0; y < size.height; ++y) {
    auto* row = const_cast<JSAMPROW>(values.data() + y * size.width * kind.components);
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string file(reinterpret_cast<char*>(out), bytes);
  std::free(out);
  jpeg_destroy_compress(&encoder);
  return file;
}

// Waves, edges and noise.
inline std::vector<uint8_t> pattern(const Size& size, int components) {
  std::vector<uint8_t> values;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int c = 0; c < components; ++c) {
        const int64_t wave = (x * (c + 2) + y * 3) % 200, edge = (x / 13 + y / 7 + c) % 2 * 40;
        values.push_back(static_cast<uint8_t>(wave + edge + (x * 7 + y * 11) % 16));
      }
    }
  }
  return values;
}

inline std::string patterned_jpeg(const JpegKind& kind, const Size& size) {
  return encode_jpeg(kind, size, pattern(size, kind.components));
}

inline EncodedImage encoded(const std::string& file, std::string_view name = "x.JPEG") {
  return {std::as_bytes(std::span(file.data(), file.size())), name};
}

inline std::string hash_of(const Pixels& pixels) {
  Sha256 sha256;
  sha256.update(std::as_bytes(std::span(pixels.values)));
  return sha256.hex();
}

inline Pixels cut(const Pixels& pixels, const Box& box) {
  Pixels part{{box.width, box.height}, {}};
  for (int64_t y = 0; y < box.height; ++y) {
    const auto row =
        pixels.row(box.top + y).subspan(static_cast<size_t>(box.left * 3), static_cast<size_t>(box.width * 3));
    part.values.insert(part.values.end(), row.begin(), row.end());
  }
  return part;
}

inline Box random_box(RandomSequence& random, const Size& size) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(bound))); };
  Box box{below(size.width), below(size.height), 0, 0};
  box.width = 1 + below(size.width - box.left);
  box.height = 1 + below(size.height - box.top);
  return box;
}

// ---- real images ----------------------------------------------------------------------------------------------------

inline std::optional<std::filesystem::path> imagenet_sample() {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) return std::nullopt;
  const auto file = std::filesystem::path(*folder) / "imagenet-sample/imagenet-sample.tar";
  return std::filesystem::exists(file) ? std::optional(file) : std::nullopt;
}
inline constexpr const char* kNoSample = "missing capability: imagenet-sample in MLBENCH_DATA_DIR";

struct RealImage {
  std::string name, file;
};

// Every `step`-th image of the sample.
inline std::vector<RealImage> real_images(const std::filesystem::path& tar, size_t step) {
  const std::string all = read_file(tar);
  std::vector<RealImage> images;
  size_t number = 0;
  for (const TarMember& member : read_tar_members(tar)) {
    if (!member.name.ends_with(".JPEG") || number++ % step != 0) continue;
    images.push_back({member.name.substr(member.name.rfind('/') + 1),
                      all.substr(static_cast<size_t>(member.offset), static_cast<size_t>(member.length))});
  }
  return images;
}

// Tiny ImageNet's ten classes, unpacked into a folder; empty where the data is not there.
inline std::optional<std::filesystem::path> tiny_imagenet(const std::filesystem::path& into) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) return std::nullopt;
  const auto file = std::filesystem::path(*folder) / "tiny-imagenet-10/tiny-imagenet-10.tar.gz";
  if (!std::filesystem::exists(file)) return std::nullopt;
  ProcessOptions options;
  options.arguments = {"tar", "-xzf", file.string(), "-C", into.string()};
  const ProcessOutput output = run_process(options, std::chrono::minutes(2));
  if (output.end.code != 0) throw IoError(output.standard_error);
  return into / "tiny-imagenet-10";
}
inline constexpr const char* kNoTinyImagenet = "missing capability: tiny-imagenet-10 in MLBENCH_DATA_DIR";

// ---- Pillow ---------------------------------------------------------------------------------------------------------

inline ProcessOutput run_python(const std::string& python, const std::vector<std::string>& arguments) {
  ProcessOptions options;
  options.arguments = {python};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return run_process(options, std::chrono::minutes(10));
}

// A Python that has Pillow; empty where there is none.
inline std::string python_with_pillow() {
  for (const std::string& python : {environment_variable("MLBENCH_TEST_PYTHON").value_or(""), std::string("python3")}) {
    if (python.empty() || (python.find('/') == std::string::npos && !program_exists(python))) continue;
    if (run_python(python, {"-c", "import PIL"}).end.code == 0) return python;
  }
  return "";
}
inline constexpr const char* kNoPillow = "missing capability: Pillow (Debian: python3-pil)";

// The cases of pillow_oracle.py, and what it answers.
class Pillow {
 public:
  explicit Pillow(std::string python) : python_(std::move(python)) {}

  std::string write(const std::string& name, const std::string& file) {
    write_file_atomically(folder_ / name, file);
    return (folder_ / name).string();
  }
  void add(const std::string& path, const Json& change) {
    Json one = {{"file", path},    {"crop", nullptr},   {"edges", nullptr},
                {"size", nullptr}, {"window", nullptr}, {"flip", false}};
    one.update(change);
    cases_.push_back(std::move(one));
  }
  Json answers() const {
    write_json_file(folder_ / "cases.json", cases_);
    const std::filesystem::path sources = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
    const std::string script = (sources / "src/mlbench/image/pillow_oracle.py").string();
    const ProcessOutput output = run_python(python_, {script, folder_.path().string()});
    if (output.end.code != 0) throw IoError(output.standard_output + output.standard_error);
    return read_json_file(folder_ / "result.json", {"answers of Pillow", size_t{16} << 20});
  }
  const Json& cases() const { return cases_; }

 private:
  std::string python_;
  TemporaryFolder folder_;
  Json cases_ = Json::array();
};

inline Json as_list(const Box& box) { return {box.left, box.top, box.width, box.height}; }

}  // namespace mlbench::image::test
