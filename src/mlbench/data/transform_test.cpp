#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/data/train_loader.h"

namespace mlbench::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Images of uint8 or rows of float32 in memory.
template <typename T>
struct Samples {
  Samples(std::vector<int64_t> shape, std::vector<T> all) : values(std::move(all)) {
    const int64_t volume = volume_of(shape);
    split.name = "train";
    split.samples = static_cast<int64_t>(values.size()) / volume;
    labels.resize(static_cast<size_t>(split.samples));
    split.columns = {dataset::FixedColumn{"features", std::move(shape), const_view_of(std::span<const T>(values))},
                     dataset::FixedColumn{"labels", {}, const_view_of(std::span<const int64_t>(labels))}};
  }
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;

  std::vector<float> through(const Transform& transform, const std::vector<int64_t>& rows, int64_t epoch = 0) const {
    const auto& features = split.column<dataset::FixedColumn>("features");
    const auto volume = static_cast<size_t>(volume_of(transform.output_shape()));
    std::vector<float> out(rows.size() * volume, -1e9F);
    for (size_t i = 0; i < rows.size(); ++i) {
      transform.apply({rows[i], features.shape, features.record(rows[i])}, epoch,
                      std::span(out).subspan(i * volume, volume));
    }
    return out;
  }

  std::vector<T> values;
  std::vector<int64_t> labels;
  dataset::CachedSplit split;
};

spec::DataSpec spec_of(const dataset::CachedSplit& split, std::vector<double> mean = {},
                       std::vector<double> stddev = {}) {
  spec::DataSpec spec;
  spec.sample_shape = split.column<dataset::FixedColumn>("features").shape;
  spec.mean = std::move(mean);
  spec.stddev = std::move(stddev);
  return spec;
}

std::vector<uint8_t> counting(size_t count) {
  std::vector<uint8_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint8_t>(i * 31 % 251);
  return values;
}

TEST(Transform, Scale255ByHand) {
  const Samples<uint8_t> samples({1, 2, 2}, {0, 51, 255, 1, 102, 153, 204, 127});
  const auto transform = make_transform({"scale_255"}, spec_of(samples.split), 0);
  EXPECT_THAT(samples.through(*transform, {0}), ElementsAre(0.0F, 0.2F, 1.0F, 1.0F / 255.0F));
  EXPECT_THAT(samples.through(*transform, {1, 0}),
              ElementsAre(0.4F, 0.6F, 0.8F, 127.0F / 255.0F, 0.0F, 0.2F, 1.0F, 1.0F / 255.0F));
}

TEST(Transform, Scale255IsTheCorrectlyRoundedQuotientForEveryPixel) {
  std::vector<uint8_t> all(256);
  std::iota(all.begin(), all.end(), uint8_t{0});
  const Samples<uint8_t> samples({1, 16, 16}, all);
  const auto out = samples.through(*make_transform({"scale_255"}, spec_of(samples.split), 0), {0});
  for (int value = 0; value < 256; ++value) {
    EXPECT_EQ(out[static_cast<size_t>(value)], static_cast<float>(value / 255.0)) << value;
  }
}

TEST(Transform, NothingNamedLeavesTheValues) {
  const Samples<uint8_t> images({1, 2, 2}, {0, 51, 255, 1});
  EXPECT_THAT(images.through(*make_transform({}, spec_of(images.split), 0), {0}), ElementsAre(0, 51, 255, 1));
  const Samples<float> rows({3}, {0.5F, -1, 2, 7, 8, 9});
  EXPECT_THAT(rows.through(*make_transform({}, spec_of(rows.split), 0), {1, 0}), ElementsAre(7, 8, 9, 0.5F, -1, 2));
}

TEST(Transform, NormalisePerChannelByHand) {
  const Samples<uint8_t> samples({3, 1, 2}, {255, 0, 51, 102, 204, 255});
  const auto transform =
      make_transform({"scale_255", "normalise"}, spec_of(samples.split, {0.5, 0.25, 0.0}, {0.5, 0.25, 2.0}), 0);
  EXPECT_THAT(samples.through(*transform, {0}),
              ElementsAre(1.0F, -1.0F, (0.2F - 0.25F) / 0.25F, (0.4F - 0.25F) / 0.25F, 0.4F, 0.5F));
}

TEST(Transform, FloatRowsGoThroughTheSameStages) {
  const Samples<float> rows({2}, {255, 51});
  const auto transform = make_transform({"scale_255", "normalise"}, spec_of(rows.split, {0.5}, {0.5}), 0);
  EXPECT_THAT(rows.through(*transform, {0}), ElementsAre(1.0F, (0.2F - 0.5F) / 0.5F));
}

// The plain way: one stage after the other on whole images.
std::vector<float> plain_pad_crop_flip(const std::vector<float>& image, int64_t channels, int64_t height, int64_t width,
                                       const CropFlip& move) {
  const int64_t padded_height = height + 8, padded_width = width + 8;
  std::vector<float> out;
  for (int64_t c = 0; c < channels; ++c) {
    std::vector<float> padded(static_cast<size_t>(padded_height * padded_width), 0.0F);
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        padded[static_cast<size_t>((y + 4) * padded_width + x + 4)] =
            image[static_cast<size_t>((c * height + y) * width + x)];
      }
    }
    for (int64_t y = 0; y < height; ++y) {
      std::vector<float> row;
      for (int64_t x = 0; x < width; ++x) {
        row.push_back(padded[static_cast<size_t>((y + move.dy) * padded_width + x + move.dx)]);
      }
      if (move.flip) std::reverse(row.begin(), row.end());
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

TEST(Transform, PadCropFlipEqualsThePlainWayAtEitherEndOfTheList) {
  constexpr int64_t kSamples = 300;
  const Samples<uint8_t> samples({3, 6, 5}, counting(kSamples * 90));
  const spec::DataSpec spec = spec_of(samples.split, {0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010});
  const auto raw = make_transform({}, spec, 7);
  const auto values = make_transform({"scale_255", "normalise"}, spec, 7);
  const auto first = make_transform({"pad_crop_flip", "scale_255", "normalise"}, spec, 7);
  const auto last = make_transform({"scale_255", "normalise", "pad_crop_flip"}, spec, 7);
  for (int64_t row = 0; row < kSamples; ++row) {
    const CropFlip move = crop_flip_of(7, 2, row, 8, 8);
    EXPECT_EQ(samples.through(*last, {row}, 2), plain_pad_crop_flip(samples.through(*values, {row}), 3, 6, 5, move));

    const auto moved = plain_pad_crop_flip(samples.through(*raw, {row}), 3, 6, 5, move);
    const Samples<uint8_t> moved_samples({3, 6, 5}, std::vector<uint8_t>(moved.begin(), moved.end()));
    EXPECT_EQ(samples.through(*first, {row}, 2), moved_samples.through(*values, {0})) << row;
  }
}

TEST(Transform, PadCropFlipByHand) {
  // Every sample that the seed shifts by one to the right and one down.
  const Samples<uint8_t> samples({1, 3, 3}, counting(9 * 2000));
  const auto transform = make_transform({"pad_crop_flip"}, spec_of(samples.split), 0);
  int straight = 0, mirrored = 0;
  for (int64_t row = 0; row < 2000; ++row) {
    const CropFlip move = crop_flip_of(0, 0, row, 8, 8);
    if (move.dy != 3 || move.dx != 3) continue;
    const auto* p = samples.values.data() + 9 * row;
    const auto out = samples.through(*transform, {row});
    ++(move.flip ? mirrored : straight);
    if (move.flip) {
      EXPECT_THAT(out, ElementsAre(0, 0, 0, p[1], p[0], 0, p[4], p[3], 0));
    } else {
      EXPECT_THAT(out, ElementsAre(0, 0, 0, 0, p[0], p[1], 0, p[3], p[4]));
    }
  }
  EXPECT_GT(straight, 0);
  EXPECT_GT(mirrored, 0);
}

TEST(Transform, CropsAndFlipsAreUniform) {
  std::map<int64_t, int> dy, dx;
  int flips = 0;
  constexpr int kDraws = 18000;
  for (int64_t sample = 0; sample < kDraws; ++sample) {
    const CropFlip move = crop_flip_of(42, 5, sample, 8, 8);
    ++dy[move.dy];
    ++dx[move.dx];
    flips += move.flip ? 1 : 0;
  }
  for (const auto& counts : {dy, dx}) {
    ASSERT_EQ(counts.size(), 9U);
    EXPECT_EQ(counts.begin()->first, 0);
    EXPECT_EQ(counts.rbegin()->first, 8);
    for (const auto& [value, count] : counts) EXPECT_NEAR(count, kDraws / 9.0, 220) << value;  // 5 standard deviations
  }
  EXPECT_NEAR(flips, kDraws / 2.0, 340);
}

spec::DataSpec spec_of_shape(std::vector<int64_t> shape) {
  spec::DataSpec spec;
  spec.sample_shape = std::move(shape);
  return spec;
}

TEST(Transform, CenterCropByHand) {
  const Samples<uint8_t> samples({2, 4, 5}, counting(40));
  const auto transform = make_transform({"center_crop"}, spec_of_shape({2, 2, 2}), 0);
  EXPECT_EQ(transform->output_shape(), (std::vector<int64_t>{2, 2, 2}));
  const auto* p = samples.values.data();
  EXPECT_THAT(samples.through(*transform, {0}), ElementsAre(p[6], p[7], p[11], p[12], p[26], p[27], p[31], p[32]));
}

TEST(Transform, CenterCropOfAnImageThatFitsLeavesIt) {
  const Samples<float> samples({1, 2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(samples.through(*make_transform({"center_crop"}, spec_of(samples.split), 0), {0}),
              ElementsAre(1, 2, 3, 4));
}

// Every image is cut as its number says, whatever its size.
TEST(Transform, CropFlipCutsImagesOfAnySize) {
  const auto transform = make_transform({"crop_flip", "scale_255"}, spec_of_shape({2, 3, 4}), 7);
  std::map<std::pair<int64_t, int64_t>, int> places;
  int flips = 0;
  for (int64_t number = 0; number < 300; ++number) {
    const int64_t height = 3 + number % 3, width = 4 + number % 2;
    const Samples<uint8_t> image({2, height, width}, counting(static_cast<size_t>(2 * height * width)));
    const CropFlip move = crop_flip_of(7, 2, number, height - 3, width - 4);
    ASSERT_LE(move.dy, height - 3);
    ASSERT_LE(move.dx, width - 4);
    std::vector<float> expected;
    for (int64_t channel = 0; channel < 2; ++channel) {
      for (int64_t y = 0; y < 3; ++y) {
        for (int64_t x = 0; x < 4; ++x) {
          const int64_t from = move.dx + (move.flip ? 3 - x : x);
          const auto at = static_cast<size_t>((channel * height + y + move.dy) * width + from);
          expected.push_back(static_cast<float>(image.values[at]) / 255.0F);
        }
      }
    }
    std::vector<float> out(24);
    const auto& features = image.split.column<dataset::FixedColumn>("features");
    transform->apply({number, features.shape, features.record(0)}, 2, out);
    EXPECT_EQ(out, expected) << number;
    ++places[{move.dy, move.dx}];
    flips += move.flip ? 1 : 0;
  }
  EXPECT_EQ(places.size(), 6U) << "every place of the largest image occurs";
  EXPECT_NEAR(flips, 150, 45);
}

TEST(Transform, CropsRefuseSmallerImagesAndOtherChannels) {
  const auto transform = make_transform({"center_crop"}, spec_of_shape({3, 3, 4}), 0);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 2, 9}, {3, 9, 3}, {1, 9, 9}, {3, 12}}) {
    const Samples<uint8_t> image(shape, counting(static_cast<size_t>(volume_of(shape))));
    EXPECT_THAT([&] { image.through(*transform, {0}); },
                ThrowsMessage<UserError>(HasSubstr("the task expects [3, 3, 4] or larger images")));
  }
}

TEST(Transform, AugmentationDependsOnSeedEpochAndSampleButNotOnWorkers) {
  constexpr int64_t kSamples = 48;
  Samples<uint8_t> samples({1, 8, 8}, counting(kSamples * 64));
  const spec::DataSpec spec = spec_of(samples.split);
  const auto transform = [&](uint64_t seed) { return make_transform({"pad_crop_flip", "scale_255"}, spec, seed); };
  // Label = sample number tells which image a batch holds.
  std::iota(samples.labels.begin(), samples.labels.end(), 0);

  const auto images_of_epoch = [&](int64_t workers, int64_t epoch, uint64_t seed) {
    std::map<int64_t, std::vector<float>> images;
    for (int64_t rank = 0; rank < workers; ++rank) {
      const std::shared_ptr<const BatchPlan> plan =
          make_sample_plan(kSamples, {.workers = workers, .batch_size = 5, .seed = seed});
      const auto loader = make_train_loader(make_sample_source(samples.split, transform(seed)), plan,
                                            {.rank = rank, .first_step = plan->first_step(epoch)});
      for (int64_t step = 0; step < plan->steps_per_epoch(); ++step) {
        for (const BatchView& view : loader->next().micro) {
          for (int64_t i = 0; i < view.samples; ++i) {
            const auto* first = static_cast<const float*>(view.at("features").values.data) + i * 64;
            images[static_cast<const int64_t*>(view.at("labels").values.data)[i]] = {first, first + 64};
          }
        }
      }
    }
    EXPECT_EQ(images.size(), static_cast<size_t>(kSamples));
    return images;
  };
  const auto reference = images_of_epoch(1, 1, 42);
  for (int64_t workers = 2; workers <= 5; ++workers) EXPECT_EQ(images_of_epoch(workers, 1, 42), reference) << workers;
  EXPECT_NE(images_of_epoch(1, 2, 42), reference);
  EXPECT_NE(images_of_epoch(1, 1, 43), reference);
}

TEST(Transform, ErrorsNameWhatIsWrongAndWhatIsValid) {
  const Samples<uint8_t> samples({3, 2, 2}, counting(12));
  const Samples<float> rows({4}, {1, 2, 3, 4});
  const auto make = [](const std::vector<std::string>& names, const spec::DataSpec& spec) {
    return [=] { make_transform(names, spec, 0); };
  };
  EXPECT_THAT(make({"scale"}, spec_of(samples.split)),
              ThrowsMessage<UserError>(AllOf(
                  HasSubstr("'scale'"), HasSubstr("scale_255, normalise, pad_crop_flip, crop_flip, center_crop"))));
  EXPECT_THAT(make({"normalise"}, spec_of(samples.split, {0.5}, {0.5})),
              ThrowsMessage<UserError>(HasSubstr("1 means and 1 deviations, expected one of each for 3 channels")));
  EXPECT_THAT(make({"normalise"}, spec_of(samples.split, {0, 0, 0}, {1, 0, 1})),
              ThrowsMessage<UserError>(HasSubstr("must be positive")));
  for (const char* second : {"pad_crop_flip", "crop_flip", "center_crop"}) {
    EXPECT_THAT(make({"pad_crop_flip", "scale_255", second}, spec_of(samples.split)),
                ThrowsMessage<UserError>(HasSubstr(std::string(second) + ": a list may have only one that moves")));
  }
  EXPECT_THAT(make({"pad_crop_flip"}, spec_of(rows.split)), ThrowsMessage<UserError>(HasSubstr("three dimensions")));
  EXPECT_THAT([&] { samples.through(*make_transform({}, spec_of(rows.split), 0), {0}); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("samples of [3, 2, 2]"), HasSubstr("expects [4]"))));
}

}  // namespace
}  // namespace mlbench::data
