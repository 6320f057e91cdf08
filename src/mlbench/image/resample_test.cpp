#include "mlbench/image/resample.h"

#include <gmock/gmock.h>

#include "mlbench/image/images_test.h"

namespace mlbench::image {
namespace {

using test::as_list;
using test::encoded;
using ::testing::ElementsAre;

Pixels grey_row(const std::vector<uint8_t>& values, bool down = false) {
  const auto count = std::ssize(values);
  Pixels pixels{down ? Size{1, count} : Size{count, 1}, {}};
  for (const uint8_t value : values) pixels.values.insert(pixels.values.end(), {value, value, value});
  return pixels;
}

Edges whole_of(const Size& size) { return {0, 0, static_cast<float>(size.width), static_cast<float>(size.height)}; }

Pixels resized(const Pixels& pixels, const Size& to) {
  return resample(Resize(pixels.size, whole_of(pixels.size), to, {0, 0, to.width, to.height}), pixels);
}

std::vector<int> reds(const Pixels& pixels) {
  std::vector<int> values;
  for (size_t i = 0; i < pixels.values.size(); i += 3) values.push_back(pixels.values[i]);
  return values;
}

// Four pixels to two: the triangle is 4 wide, and cut at the border. (3/4 a + 3/4 b + 1/4 c) / (7/4) and its mirror.
TEST(Resample, HalfByHand) {
  EXPECT_THAT(reds(resized(grey_row({0, 70, 140, 210}), {2, 1})), ElementsAre(50, 160));
  EXPECT_THAT(reds(resized(grey_row({0, 70, 140, 210}, true), {1, 2})), ElementsAre(50, 160));
}

// Two pixels to four: quarters between their centres, the border repeated.
TEST(Resample, DoubleByHand) {
  EXPECT_THAT(reds(resized(grey_row({0, 100}), {4, 1})), ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(reds(resized(grey_row({0, 100}, true), {1, 4})), ElementsAre(0, 25, 75, 100));
}

// Between the passes values are rounded to bytes: half of 1 becomes 1, and half of that 1 again. Exact is 1/4.
TEST(Resample, RoundsBetweenThePasses) {
  Pixels pixels{{2, 2}, {0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0}};
  EXPECT_THAT(reds(resized(pixels, {1, 1})), ElementsAre(1));
}

TEST(Resample, TheSameSizeIsTheSameImage) {
  const Size size{13, 9};
  const Pixels pixels{size, test::pattern(size, 3)};
  EXPECT_EQ(resized(pixels, size).values, pixels.values);
}

TEST(Resample, OneColourStaysThatColour) {
  for (const uint8_t value : {0, 1, 127, 254, 255}) {
    Pixels pixels{{97, 53}, std::vector<uint8_t>(97 * 53 * 3, value)};
    for (const Size to : {Size{224, 224}, Size{7, 5}, Size{31, 100}}) {
      EXPECT_THAT(resized(pixels, to).values, ::testing::Each(value));
    }
  }
}

TEST(Resample, AWindowIsThatPartOfTheWholeAndNeedsNoMore) {
  const Size from{157, 90}, to{83, 120};
  const Pixels pixels{from, test::pattern(from, 3)};
  const Edges edges{10.5F, 3.25F, 140.75F, 88};
  const Pixels whole = resample(Resize(from, edges, to, {0, 0, to.width, to.height}),
                                test::cut(pixels, Resize(from, edges, to, {0, 0, to.width, to.height}).needed()));
  RandomSequence random(1);
  for (int i = 0; i < 50; ++i) {
    const Box window = test::random_box(random, to);
    const Resize resize(from, edges, to, window);
    EXPECT_EQ(resample(resize, test::cut(pixels, resize.needed())).values, test::cut(whole, window).values);
  }
  // From 1.57 pixels a pixel: a window of one takes some four, not 157.
  EXPECT_LE(Resize(from, edges, to, {40, 60, 1, 1}).needed().width, 5);
  EXPECT_LE(Resize(from, edges, to, {40, 60, 1, 1}).needed().height, 5);
}

TEST(Pillow, ResizesTheSame) {
  const std::string python = test::python_with_pillow();
  if (python.empty()) GTEST_SKIP() << test::kNoPillow;
  test::Pillow pillow(python);
  std::vector<test::RealImage> files = {{"made", test::patterned_jpeg({.name = "420"}, {301, 203})},
                                        {"small", test::patterned_jpeg({.name = "444"}, {9, 14})}};
  if (const auto tar = test::imagenet_sample()) {
    for (test::RealImage& image : test::real_images(*tar, 20)) files.push_back(std::move(image));
  }
  std::vector<std::string> ours;
  RandomSequence random(2);
  const auto uniform = [&](double low, double high) {
    return static_cast<float>(low + random.uniform() * (high - low));
  };
  for (const test::RealImage& image : files) {
    const std::string path = pillow.write(image.name, image.file);
    const Pixels pixels = decode(encoded(image.file, image.name));
    for (int i = 0; i < 12; ++i) {
      const auto width = static_cast<double>(pixels.size.width), height = static_cast<double>(pixels.size.height);
      Edges edges{uniform(0, width / 2), uniform(0, height / 2), uniform(width * 0.6, width),
                  uniform(height * 0.6, height)};
      if (i % 3 == 0) edges = whole_of(pixels.size);
      const Size to =
          i % 2 == 0 ? Size{224, 224}
                     : Size{1 + static_cast<int64_t>(random.below(500)), 1 + static_cast<int64_t>(random.below(300))};
      const Box window = test::random_box(random, to);
      const Resize resize(pixels.size, edges, to, window);
      ours.push_back(test::hash_of(resample(resize, test::cut(pixels, resize.needed()))));
      pillow.add(path, {{"edges", {edges.left, edges.top, edges.right, edges.bottom}},
                        {"size", {to.width, to.height}},
                        {"window", as_list(window)}});
    }
  }
  const Json answers = pillow.answers();
  ASSERT_EQ(answers.size(), ours.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(answers[i], ours[i]) << pillow.cases()[i].dump();
}

}  // namespace
}  // namespace mlbench::image
