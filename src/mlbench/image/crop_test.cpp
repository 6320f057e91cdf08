#include "mlbench/image/crop.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "mlbench/base/test_error.h"
#include "mlbench/image/images_test.h"
#include "mlbench/image/resample.h"

namespace mlbench::image {
namespace {

using test::as_list;
using test::encoded;
using ::testing::HasSubstr;

const RandomCropOptions kUsual;

// ---- where ----------------------------------------------------------------------------------------------------------

TEST(DrawCrop, AreaAndRatioAreWithinTheirBounds) {
  const Size size{500, 375};
  int flips = 0;
  double logarithms = 0, areas = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const RandomCrop crop = draw_crop(size, kUsual, 7, 0, i);
    const Box& box = crop.box;
    ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.left + box.width <= 500 && box.top + box.height <= 375);
    const double area = static_cast<double>(box.width * box.height) / (500 * 375);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_GT(area, 0.078);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.35);
    areas += area;
    logarithms += std::log(ratio);
    flips += crop.flip ? 1 : 0;
  }
  // Those of Python's random numbers, by 200,000 draws of the same algorithm: what does not fit is drawn again.
  EXPECT_NEAR(areas / kDraws, 0.432, 0.015);
  EXPECT_NEAR(logarithms / kDraws, 0.031, 0.012);
  EXPECT_NEAR(flips, kDraws / 2.0, 150);
}

TEST(DrawCrop, FollowsFromSeedEpochAndSample) {
  const Size size{500, 375};
  EXPECT_EQ(draw_crop(size, kUsual, 7, 3, 11), draw_crop(size, kUsual, 7, 3, 11));
  std::set<std::pair<int64_t, int64_t>> places;
  for (const auto& [seed, epoch, sample] : {std::tuple{7, 3, 11}, {8, 3, 11}, {7, 4, 11}, {7, 3, 12}, {7, 11, 3}}) {
    const Box box = draw_crop(size, kUsual, static_cast<uint64_t>(seed), epoch, sample).box;
    places.insert({box.left, box.width});
  }
  EXPECT_EQ(places.size(), 5U);
}

// No box of these ratios and of the whole area fits: the central part of an allowed ratio.
TEST(DrawCrop, FallsBackToTheCentre) {
  const RandomCropOptions all{.least_area = 1, .most_area = 1};
  EXPECT_EQ(draw_crop({1000, 90}, all, RandomSequence(1)).box, (Box{440, 0, 120, 90}));
  EXPECT_EQ(draw_crop({90, 1000}, all, RandomSequence(1)).box, (Box{0, 440, 90, 120}));
  EXPECT_EQ(draw_crop({1, 1}, all, RandomSequence(1)).box, (Box{0, 0, 1, 1}));
  EXPECT_EQ(draw_crop({60'000, 1}, kUsual, RandomSequence(1)).box, (Box{29'999, 0, 1, 1}));
}

TEST(CentreCrop, RoundsAsTorchvision) {
  const auto expect = [](Size size, Size resized, int64_t left, int64_t top) {
    const CentreCrop crop = centre_crop(size, 256, 224);
    EXPECT_EQ(crop.resized, resized);
    EXPECT_EQ(crop.window, (Box{left, top, 224, 224}));
  };
  expect({500, 375}, {341, 256}, 58, 16);  // int(256 * 500 / 375) = 341; (341 - 224) / 2 = 58.5, to the even 58
  expect({375, 500}, {256, 341}, 16, 58);
  expect({343, 256}, {343, 256}, 60, 16);  // 59.5, to the even 60
  expect({256, 256}, {256, 256}, 16, 16);
  expect({1, 3}, {256, 768}, 16, 272);
}

// ---- what -----------------------------------------------------------------------------------------------------------

TEST(PixelValues, AreNormalised) {
  const PixelValues values({0.5, 0, 0.25}, {0.5, 1, 2});
  EXPECT_EQ(values.value(0, 0), -1.0F);
  EXPECT_EQ(values.value(0, 255), 1.0F);
  EXPECT_EQ(values.value(1, 51), 0.2F);
  EXPECT_EQ(values.value(2, 255), 0.375F);
  EXPECT_THAT(error_of([] { PixelValues({0, 0, 0}, {1, 0, 1}); }), HasSubstr("expected positive numbers"));
}

TEST(Crop, PlanesAreTheNormalisedBytes) {
  const std::string file = test::patterned_jpeg({.name = "420"}, {90, 70});
  const PixelValues values({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const CropOptions options{.side = 32, .limits = {}};
  for (const bool flip : {false, true}) {
    const RandomCrop crop{{13, 9, 50, 44}, flip};
    const Pixels bytes = training_crop(encoded(file), crop, options);
    std::vector<float> planes(3 * 32 * 32, -1e9F);
    write_training_crop(encoded(file), crop, options, values, planes);
    for (size_t i = 0; i < 32 * 32; ++i) {
      for (size_t c = 0; c < 3; ++c) ASSERT_EQ(planes[c * 32 * 32 + i], values.value(c, bytes.values[i * 3 + c]));
    }
  }
  std::vector<float> planes(3 * 32 * 32, -1e9F);
  write_evaluation_crop(encoded(file), 40, options, values, planes);
  const Pixels bytes = evaluation_crop(encoded(file), 40, options);
  for (size_t i = 0; i < 32 * 32; ++i) ASSERT_EQ(planes[i], values.value(0, bytes.values[i * 3]));
}

// The plain way: decode all, cut, resize, turn.
TEST(Crop, EqualsThePlainWay) {
  const std::string file = test::patterned_jpeg({.name = "420"}, {190, 121});
  const Pixels whole = decode(encoded(file));
  const CropOptions options{.side = 48, .limits = {}};
  for (int i = 0; i < 40; ++i) {
    const RandomCrop crop = draw_crop(whole.size, kUsual, 1, 0, i);
    const Box& box = crop.box;
    const Edges edges{0, 0, static_cast<float>(box.width), static_cast<float>(box.height)};
    const Resize resize({box.width, box.height}, edges, {48, 48}, {0, 0, 48, 48});
    Pixels expected = resample(resize, test::cut(test::cut(whole, box), resize.needed()));
    if (crop.flip) {
      for (int64_t y = 0; y < 48; ++y) {
        for (int64_t x = 0; x < 24; ++x) {
          for (int64_t c = 0; c < 3; ++c) {
            std::swap(expected.values[static_cast<size_t>((y * 48 + x) * 3 + c)],
                      expected.values[static_cast<size_t>((y * 48 + 47 - x) * 3 + c)]);
          }
        }
      }
    }
    EXPECT_EQ(training_crop(encoded(file), crop, options).values, expected.values) << i;
  }
}

// ---- smaller while decoded ------------------------------------------------------------------------------------------

struct Difference {
  double mean = 0;
  int most = 0;
};

Difference difference(const Pixels& a, const Pixels& b) {
  Difference found;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const int one = std::abs(int{a.values[i]} - int{b.values[i]});
    found.mean += one;
    found.most = std::max(found.most, one);
  }
  found.mean /= static_cast<double>(a.values.size());
  return found;
}

TEST(ScaledDecoding, ChangesNothingWhereTheResultWouldBeLarger) {
  const std::string file = test::patterned_jpeg({.name = "420"}, {400, 300});
  const CropOptions exact{.limits = {}}, scaled{.scaled_decoding = true, .limits = {}};
  EXPECT_FALSE(exact.scaled_decoding);
  const RandomCrop smaller{{0, 0, 400, 300}, false};  // less than twice 224 down
  EXPECT_EQ(training_crop(encoded(file), smaller, exact).values, training_crop(encoded(file), smaller, scaled).values);
  const CropOptions exact_150{.side = 150, .limits = {}},
      scaled_150{.side = 150, .scaled_decoding = true, .limits = {}};
  EXPECT_NE(training_crop(encoded(file), smaller, exact_150).values,
            training_crop(encoded(file), smaller, scaled_150).values);
}

TEST(ScaledDecoding, StaysNearTheExactValuesOfRealImages) {
  const auto tar = test::imagenet_sample();
  if (!tar) GTEST_SKIP() << test::kNoSample;
  const CropOptions exact{.side = 64, .limits = {}}, scaled{.side = 64, .scaled_decoding = true, .limits = {}};
  double sum = 0;
  int images = 0, changed = 0;
  for (const test::RealImage& image : test::real_images(*tar, 8)) {
    const EncodedImage given = encoded(image.file, image.name);
    const RandomCrop crop = draw_crop(read_size(given), kUsual, 1, 0, images++);
    const Difference found = difference(training_crop(given, crop, exact), training_crop(given, crop, scaled));
    sum += found.mean;
    changed += found.most > 0 ? 1 : 0;
  }
  EXPECT_GT(changed, images / 2);
  EXPECT_LT(sum / images, 5);
}

// ---- Pillow ---------------------------------------------------------------------------------------------------------

TEST(Pillow, CropsTheSame) {
  const std::string python = test::python_with_pillow();
  if (python.empty()) GTEST_SKIP() << test::kNoPillow;
  test::Pillow pillow(python);
  std::vector<test::RealImage> files;
  for (const test::JpegKind& kind : test::jpeg_kinds())
    files.push_back({kind.name, test::patterned_jpeg(kind, {180, 130})});
  if (const auto tar = test::imagenet_sample()) {
    for (test::RealImage& image : test::real_images(*tar, 2)) files.push_back(std::move(image));
  }
  const CropOptions options;
  std::vector<std::string> ours;
  for (const test::RealImage& image : files) {
    const EncodedImage given = encoded(image.file, image.name);
    const std::string path = pillow.write(image.name, image.file);
    const Size size = read_size(given);
    const RandomCrop crop = draw_crop(size, kUsual, 2, 0, std::ssize(ours));
    ours.push_back(test::hash_of(training_crop(given, crop, options)));
    pillow.add(path, {{"crop", as_list(crop.box)}, {"size", {224, 224}}, {"flip", crop.flip}});
    const CentreCrop centre = centre_crop(size, 256, 224);
    ours.push_back(test::hash_of(evaluation_crop(given, 256, options)));
    pillow.add(path, {{"size", {centre.resized.width, centre.resized.height}}, {"window", as_list(centre.window)}});
  }
  const Json answers = pillow.answers();
  ASSERT_EQ(answers.size(), ours.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(answers[i], ours[i]) << pillow.cases()[i].dump();
}

}  // namespace
}  // namespace mlbench::image
