#include <fmt/format.h>
#include <gmock/gmock.h>
#include <png.h>

#include <algorithm>

#include "mlbench/base/test_error.h"
#include "mlbench/image/image.h"
#include "mlbench/image/images_test.h"

namespace mlbench::image {
namespace {

using namespace std::string_literals;
using test::encoded;
using ::testing::HasSubstr;

// ---- by hand --------------------------------------------------------------------------------------------------------

std::vector<uint8_t> flat(const Size& size, const std::vector<uint8_t>& pixel) {
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < size.width * size.height; ++i) values.insert(values.end(), pixel.begin(), pixel.end());
  return values;
}

// A block of one value has one coefficient, which quality 100 does not round.
TEST(Jpeg, GreyBecomesThreeEqualBytes) {
  const Size size{11, 5};
  const std::string file = test::encode_jpeg({.name = "grey", .components = 1}, size, flat(size, {77}), 100);
  EXPECT_EQ(read_size(encoded(file)), size);
  const Pixels pixels = decode(encoded(file));
  EXPECT_EQ(pixels.size, size);
  EXPECT_EQ(pixels.values, flat(size, {77, 77, 77}));
}

// The file has 255 - ink. Of cyan ink 0, magenta 255, yellow 102 and light 200 remains 200 * (1 - ink / 255).
TEST(Jpeg, CmykIsPrintedAsPillowDoes) {
  const Size size{16, 16};
  for (const J_COLOR_SPACE stored : {JCS_CMYK}) {
    const test::JpegKind kind{.name = "cmyk", .components = 4, .horizontal = 1, .vertical = 1, .stored = stored};
    const std::string file = test::encode_jpeg(kind, size, flat(size, {255, 0, 153, 200}), 100);
    EXPECT_EQ(decode(encoded(file)).values, flat(size, {200, 0, 120}));
  }
}

TEST(Jpeg, OfTwoComponentsIsRefused) {
  std::string file = test::patterned_jpeg({.name = "444", .horizontal = 1, .vertical = 1}, {8, 8});
  const size_t frame = file.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  file[frame + 9] = 2;
  file.erase(frame + 10 + 6, 3);
  file[frame + 3] = 14;
  const size_t scan = file.find("\xFF\xDA");
  file[scan + 3] = 10;
  file[scan + 4] = 2;
  file.erase(scan + 5 + 4, 2);
  EXPECT_THAT(error_of([&] { read_size(encoded(file)); }), HasSubstr("JPEG of 2 components, expected 1 (grey), 3"));
}

TEST(Image, TheBeginningOfAFileSaysWhatItIs) {
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    const std::string file = test::patterned_jpeg(kind, {40, 30});
    const std::string beginning = file.substr(0, file.find("\xFF\xDA") + 20);  // up to the first scan
    EXPECT_EQ(format_of(encoded(beginning)), Format::kJpeg);
    EXPECT_EQ(read_jpeg_components(encoded(beginning)), kind.components) << kind.name;
    EXPECT_THAT(error_of([&] { read_jpeg_components(encoded(file.substr(0, 30))); }), HasSubstr("x.JPEG: "));
  }
  EXPECT_EQ(format_of(encoded("\x89PNG\r\n\x1A\n")), Format::kPng);
  EXPECT_THAT(error_of([] { format_of(encoded("GIF89a")); }), HasSubstr("looks like GIF"));
}

TEST(Image, OtherFormatsAreRefusedByName) {
  const auto error_of_size = [](const std::string& file) { return error_of([&] { read_size(encoded(file)); }); };
  EXPECT_EQ(error_of_size(""), "x.JPEG: is empty, expected a JPEG or PNG file");
  EXPECT_EQ(error_of_size("GIF89a..."), "x.JPEG: looks like GIF, expected a JPEG or PNG file");
  EXPECT_EQ(error_of_size("RIFF....WEBP"), "x.JPEG: looks like WebP, expected a JPEG or PNG file");
  EXPECT_EQ(error_of_size("<html>"), "x.JPEG: begins like no image, expected a JPEG or PNG file");
  EXPECT_EQ(error_of_size("\xFF\xD8\xFF"), "x.JPEG: damaged image: the file is truncated");
  EXPECT_THAT(error_of_size("\x89PNG\r\n\x1A\n"), HasSubstr("x.JPEG: damaged image: "));
}

// ---- limits ---------------------------------------------------------------------------------------------------------

// Sets the size that the frame header names.
std::string with_size(std::string file, int width, int height) {
  const size_t frame = std::min(file.find("\xFF\xC0"), file.find("\xFF\xC2"));
  file[frame + 5] = static_cast<char>(height >> 8);
  file[frame + 6] = static_cast<char>(height);
  file[frame + 7] = static_cast<char>(width >> 8);
  file[frame + 8] = static_cast<char>(width);
  return file;
}

TEST(Limits, BombsAreRefusedByTheirHeader) {
  const std::string small = test::patterned_jpeg({.name = "420"}, {16, 16});
  for (const auto& [width, height] : {std::pair{65'500, 65'500}, {65'500, 1'367}, {9'460, 9'460}}) {
    const std::string file = with_size(small, width, height);
    const std::string expected =
        fmt::format("x.JPEG: {}x{} pixels, at most 65500 a side and 89478485 in all", width, height);
    EXPECT_THAT(error_of([&] { read_size(encoded(file)); }), HasSubstr(expected));
    EXPECT_THAT(error_of([&] { decode(encoded(file)); }), HasSubstr(expected));
    EXPECT_THAT(error_of([&] { decode(encoded(file), Box{0, 0, 8, 8}); }), HasSubstr(expected));
  }
  EXPECT_EQ(read_size(encoded(with_size(small, 65'500, 1'366))), (Size{65'500, 1'366}));
  EXPECT_THAT(error_of([&] { read_size(encoded(with_size(small, 65'535, 1))); }), HasSubstr("65500"));
  EXPECT_THAT(error_of([&] { read_size(encoded(with_size(small, 0, 16))); }), HasSubstr("damaged image"));
  EXPECT_THAT(error_of([&] { read_size(encoded(small), {.most_side = 15}); }), HasSubstr("at most 15 a side"));
  EXPECT_THAT(error_of([&] { read_size(encoded(small), {.most_pixels = 255}); }), HasSubstr("and 255 in all"));
}

// ---- truncation -----------------------------------------------------------------------------------------------------

class JpegKinds : public ::testing::TestWithParam<test::JpegKind> {};
INSTANTIATE_TEST_SUITE_P(Jpeg, JpegKinds, ::testing::ValuesIn(test::jpeg_kinds()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(JpegKinds, EveryShorterFileIsRefusedWhicheverPartIsAskedFor) {
  const std::string file = test::patterned_jpeg(GetParam(), {40, 24});
  for (size_t bytes = 3; bytes < file.size(); bytes += bytes < file.size() - 40 ? 7 : 1) {
    const std::string cut = file.substr(0, bytes);
    EXPECT_THAT(error_of([&] { decode(encoded(cut)); }), HasSubstr("truncated")) << bytes;
    EXPECT_THAT(error_of([&] { decode(encoded(cut), Box{0, 0, 1, 1}); }), HasSubstr("truncated")) << bytes;
  }
  EXPECT_EQ(decode(encoded(file + "more")).values, decode(encoded(file)).values);
}

TEST(Jpeg, OfMoreThan100ScansIsRefused) {
  std::string file = test::patterned_jpeg({.name = "progressive", .progressive = true}, {16, 16});
  const size_t end = file.rfind("\xFF\xD9");
  // The last scan again and again; it refines what is exact already, which libjpeg takes with a warning.
  const size_t scan = file.rfind("\xFF\xDA");
  const std::string last = file.substr(scan, end - scan);
  for (int i = 0; i < 100; ++i) file.insert(end, last);
  EXPECT_THAT(error_of([&] { decode(encoded(file)); }), HasSubstr("more than 100 scans"));
}

// ---- parts ----------------------------------------------------------------------------------------------------------

TEST_P(JpegKinds, PartsAreThoseOfTheWhole) {
  RandomSequence random(3);
  for (const Size size : {Size{83, 61}, Size{16, 130}, Size{200, 9}, Size{1, 1}}) {
    const std::string file = test::patterned_jpeg(GetParam(), size);
    const Pixels whole = decode(encoded(file));
    ASSERT_EQ(whole.size, size);
    for (int i = 0; i < 60; ++i) {
      const Box box = test::random_box(random, size);
      EXPECT_EQ(decode(encoded(file), box).values, test::cut(whole, box).values)
          << box.width << "x" << box.height << " at " << box.left << ", " << box.top;
    }
  }
}

TEST_P(JpegKinds, PartsOfASmallerImageAreThoseOfTheWhole) {
  RandomSequence random(4);
  const Size size{211, 150};
  const std::string file = test::patterned_jpeg(GetParam(), size);
  for (const int64_t divisor : {2, 4, 8}) {
    const Size smaller = shrunk(size, divisor);
    const Pixels whole = decode_shrunk(encoded(file), {0, 0, smaller.width, smaller.height}, divisor);
    ASSERT_EQ(whole.size, smaller);
    for (int i = 0; i < 40; ++i) {
      const Box box = test::random_box(random, smaller);
      EXPECT_EQ(decode_shrunk(encoded(file), box, divisor).values, test::cut(whole, box).values) << divisor;
    }
  }
  EXPECT_EQ(shrunk({211, 150}, 8), (Size{27, 19}));
}

TEST(Jpeg, ASmallerImageHasTheMeansOfBlocks) {
  const Size size{64, 32};
  std::vector<uint8_t> values;  // a ramp, so that the mean of 4 x 4 pixels is that of its corners
  for (int64_t i = 0; i < size.width * size.height; ++i) values.push_back(static_cast<uint8_t>(i % size.width * 3));
  const std::string file = test::encode_jpeg({.name = "grey", .components = 1}, size, values, 100);
  const Pixels pixels = decode_shrunk(encoded(file), {0, 0, 16, 8}, 4);
  for (int64_t x = 0; x < 16; ++x) EXPECT_NEAR(pixels.row(3)[static_cast<size_t>(x * 3)], (4 * x + 1.5) * 3, 1.5) << x;
}

TEST(Jpeg, PartsOfRealImagesAreThoseOfTheWhole) {
  const auto tar = test::imagenet_sample();
  if (!tar) GTEST_SKIP() << test::kNoSample;
  RandomSequence random(5);
  for (const test::RealImage& image : test::real_images(*tar, 4)) {
    const EncodedImage given = encoded(image.file, image.name);
    const Pixels whole = decode(given);
    for (int i = 0; i < 4; ++i) {
      const Box box = test::random_box(random, whole.size);
      EXPECT_EQ(decode(given, box).values, test::cut(whole, box).values) << image.name;
    }
  }
}

// ---- PNG ------------------------------------------------------------------------------------------------------------

struct PngKind {
  const char* name;
  int colours, depth;
  std::string row;                // of a 2 x 2 image; both rows are the same
  std::vector<uint8_t> expected;  // RGB of that row
  bool interlaced = false;
};

std::string encode_png(const PngKind& kind) {
  std::string file;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &file,
      [](png_structp at, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(at))->append(reinterpret_cast<char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(writer, info, 2, 2, kind.depth, kind.colours, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const png_color palette[] = {{1, 2, 3}, {4, 5, 6}};
  const png_byte alpha[] = {0, 128};
  if (kind.colours == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(writer, info, palette, 2);
    png_set_tRNS(writer, info, alpha, 2, nullptr);
  }
  png_set_gAMA(writer, info, 1.0);  // which Pillow does not apply
  auto* row = reinterpret_cast<png_bytep>(const_cast<char*>(kind.row.data()));
  png_bytep rows[] = {row, row};
  png_set_rows(writer, info, rows);
  png_write_png(writer, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&writer, &info);
  return file;
}

const std::vector<PngKind>& png_kinds() {
  static const std::vector<PngKind> kinds = {
      {"grey", PNG_COLOR_TYPE_GRAY, 8, "\x05\xFA"s, {5, 5, 5, 250, 250, 250}},
      {"bits", PNG_COLOR_TYPE_GRAY, 1, "\x40"s, {0, 0, 0, 255, 255, 255}},
      {"grey_alpha", PNG_COLOR_TYPE_GRAY_ALPHA, 8, "\x05\x00\x06\x80"s, {5, 5, 5, 6, 6, 6}},
      {"palette", PNG_COLOR_TYPE_PALETTE, 8, "\x01\x00"s, {4, 5, 6, 1, 2, 3}},
      {"rgb", PNG_COLOR_TYPE_RGB, 8, "\x01\x02\x03\xFF\x00\x80"s, {1, 2, 3, 255, 0, 128}},
      {"rgba", PNG_COLOR_TYPE_RGB_ALPHA, 8, "\x01\x02\x03\x00\xFF\x00\x80\x40"s, {1, 2, 3, 255, 0, 128}},
      {"rgb_16", PNG_COLOR_TYPE_RGB, 16, "\x01\xFF\x02\xFF\x03\xFF\xFF\x00\x00\xFF\x80\x80"s, {1, 2, 3, 255, 0, 128}},
      {"interlaced", PNG_COLOR_TYPE_RGB, 8, "\x01\x02\x03\xFF\x00\x80"s, {1, 2, 3, 255, 0, 128}, true},
  };
  return kinds;
}

TEST(Png, OfEveryKindBecomesRgb) {
  for (const PngKind& kind : png_kinds()) {
    const std::string file = encode_png(kind);
    EXPECT_EQ(read_size(encoded(file)), (Size{2, 2})) << kind.name;
    EXPECT_FALSE(can_shrink(encoded(file)));
    std::vector<uint8_t> both = kind.expected;
    both.insert(both.end(), kind.expected.begin(), kind.expected.end());
    EXPECT_EQ(decode(encoded(file)).values, both) << kind.name;
    EXPECT_EQ(decode(encoded(file), {1, 1, 1, 1}).values, std::vector<uint8_t>(both.begin() + 3, both.begin() + 6))
        << kind.name;
    for (size_t bytes = 8; bytes < file.size(); ++bytes) {
      const std::string shorter = file.substr(0, bytes);
      EXPECT_THAT(error_of([&] { decode(encoded(shorter)); }), HasSubstr("damaged image: the file is truncated"))
          << bytes;
    }
  }
}

TEST(Png, WhatHasNoEightBitsIsRefused) {
  const std::string file = encode_png({"grey_16", PNG_COLOR_TYPE_GRAY, 16, "\x01\x02\x03\x04"s, {}});
  EXPECT_THAT(error_of([&] { decode(encoded(file)); }), HasSubstr("grey PNG of 16 bits, expected at most 8"));
  std::string bomb = encode_png(png_kinds().front());
  EXPECT_THAT(error_of([&] { read_size(encoded(bomb), {.most_pixels = 3}); }), HasSubstr("2x2 pixels, at most"));
  bomb[18] = 1;  // another width, with the checksum of before
  EXPECT_THAT(error_of([&] { read_size(encoded(bomb)); }), HasSubstr("damaged image"));
}

// ---- Pillow ---------------------------------------------------------------------------------------------------------

// Made by Pillow 9.4 (pillow_oracle.py) of the sample's images, with libjpeg-turbo 2.1.5.
struct Stored {
  const char* name;
  const char* sha256;
};
constexpr Stored kStored[] = {
    {"n01440764_tench.JPEG", "a0d0bb4d86c3953a8f27b39d488a272e6766a68c616b034d56121b4d930580bd"},
    {"n01491361_tiger_shark.JPEG", "a6fb892ac01be981acdd0e43e9544bfb26bd91e4fe7ffc08f72157fff9a4a510"},
};

TEST(Pillow, GaveWhatIsStored) {
  const auto tar = test::imagenet_sample();
  if (!tar) GTEST_SKIP() << test::kNoSample;
  const std::vector<test::RealImage> images = test::real_images(*tar, 1);
  for (const Stored& stored : kStored) {
    const auto image = std::ranges::find(images, stored.name, &test::RealImage::name);
    ASSERT_NE(image, images.end()) << stored.name;
    EXPECT_EQ(test::hash_of(decode(encoded(image->file, image->name))), stored.sha256) << stored.name;
  }
}

TEST(Pillow, DecodesTheSame) {
  const std::string python = test::python_with_pillow();
  if (python.empty()) GTEST_SKIP() << test::kNoPillow;
  test::Pillow pillow(python);
  std::vector<test::RealImage> files;
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    for (const Size size : {Size{64, 48}, Size{33, 17}}) {
      files.push_back({fmt::format("{}-{}", kind.name, size.width), test::patterned_jpeg(kind, size)});
    }
    std::string shorter = files.back().file;
    shorter.resize(shorter.size() - 2);
    files.push_back({fmt::format("{}-shorter", kind.name), shorter});
    // Pillow refuses some of these at their end, which decoding a part never sees.
    std::string damaged = files[files.size() - 2].file;
    damaged[damaged.size() - 30] ^= 0x55;
    files.push_back({fmt::format("{}-damaged", kind.name), damaged});
  }
  for (const PngKind& kind : png_kinds()) files.push_back({fmt::format("png-{}", kind.name), encode_png(kind)});
  if (const auto tar = test::imagenet_sample()) {
    for (test::RealImage& image : test::real_images(*tar, 1)) files.push_back(std::move(image));
  }
  for (const test::RealImage& image : files) pillow.add(pillow.write(image.name, image.file), Json::object());
  const Json answers = pillow.answers();
  ASSERT_EQ(answers.size(), files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string expected = answers[i].get<std::string>();
    const EncodedImage given = encoded(files[i].file, files[i].name);
    if (expected.find("truncated") != std::string::npos) {
      EXPECT_THAT(error_of([&] { decode(given); }), HasSubstr("truncated")) << files[i].name;
    } else if (!expected.starts_with("error")) {
      EXPECT_EQ(test::hash_of(decode(given)), expected) << files[i].name;
    }
  }
}

// A folder per class and a list of names, from the index to the pixels.
TEST(TinyImagenet, IsIndexedAndDecodedAsByPillow) {
  const std::string python = test::python_with_pillow();
  if (python.empty()) GTEST_SKIP() << test::kNoPillow;
  const TemporaryFolder scratch;
  const auto folder = test::tiny_imagenet(scratch.path());
  if (!folder) GTEST_SKIP() << test::kNoTinyImagenet;
  const SampleIndex train = index_image_folder(*folder / "train");
  ASSERT_EQ(train.samples.size(), 5000U);
  ASSERT_EQ(train.labels, 10);
  EXPECT_EQ(train.classes.front(), "n01443537");
  EXPECT_EQ(train.samples.front().key, "n01443537/images/n01443537_0.JPEG");
  EXPECT_EQ(train.samples[4999].label, 9);
  const SampleIndex val =
      index_listed_folder(*folder / "val/images", *folder / "val/val_annotations.txt", train.classes);
  ASSERT_EQ(val.samples.size(), 500U);
  std::vector<int> counts(10);
  for (const Sample& sample : val.samples) ++counts[static_cast<size_t>(sample.label)];
  EXPECT_THAT(counts, ::testing::Each(50));

  test::Pillow pillow(python);
  std::vector<std::string> ours;
  for (const SampleIndex* index : {&train, &val}) {
    const SampleFiles files(*index);
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < index->samples.size(); i += 25) {
      files.read(index->samples[i], bytes);
      ours.push_back(test::hash_of(decode({bytes, index->samples[i].key})));
      pillow.add((index->shards.front() / index->samples[i].key).string(), Json::object());
    }
  }
  const Json answers = pillow.answers();
  ASSERT_EQ(answers.size(), ours.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(answers[i], ours[i]) << pillow.cases()[i].dump();
}

}  // namespace
}  // namespace mlbench::image
