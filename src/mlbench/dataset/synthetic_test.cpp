#include "mlbench/dataset/synthetic.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

DatasetDescription epsilon(int64_t train, int64_t test, int64_t dimension = 2000, uint64_t seed = 42) {
  DatasetDescription description = find_description("epsilon");
  description.sample_shape = {dimension};
  description.splits[0].samples = train;
  description.splits[1].samples = test;
  description.synthetic_seed = seed;
  return description;
}

struct Made {
  explicit Made(const DatasetDescription& description, unsigned threads, size_t split = 0)
      : features(static_cast<size_t>(description.splits[split].samples * description.sample_volume())),
        labels(static_cast<size_t>(description.splits[split].samples)) {
    make_unit_sphere({description, split, threads, {}}, {std::as_writable_bytes(std::span(features)), labels});
  }
  std::vector<float> features;
  std::vector<int64_t> labels;
};

TEST(UnitSphere, TheNumberOfThreadsDoesNotMatter) {
  const DatasetDescription description = epsilon(2777, 10, 33);
  const Made one(description, 1);
  for (const unsigned threads : {2U, 3U, 8U}) {
    const Made many(description, threads);
    EXPECT_EQ(many.features, one.features);
    EXPECT_EQ(many.labels, one.labels);
  }
  EXPECT_NE(Made(epsilon(2777, 10, 33, 43), 1).features, one.features);
}

// A row is where it was, however many rows there are, and differs from every row of the other split.
TEST(UnitSphere, ARowDependsOnSeedSplitAndNumberAlone) {
  const Made few(epsilon(5, 5, 33), 1), many(epsilon(600, 5, 33), 2), test(epsilon(5, 5, 33), 1, 1);
  EXPECT_EQ(few.features, std::vector<float>(many.features.begin(), many.features.begin() + 5 * 33));
  EXPECT_NE(few.features, test.features);
}

TEST(UnitSphere, RowsAreUniformOnTheSphere) {
  constexpr int64_t kRows = 4000, kDimension = 50;
  const Made made(epsilon(kRows, 1, kDimension), 2);
  std::vector<double> sum(kDimension), squares(kDimension);
  double fourth = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    double norm = 0;
    for (int64_t i = 0; i < kDimension; ++i) {
      const double value = made.features[static_cast<size_t>(row * kDimension + i)];
      norm += value * value;
      sum[static_cast<size_t>(i)] += value;
      squares[static_cast<size_t>(i)] += value * value;
      fourth += value * value * value * value;
    }
    ASSERT_NEAR(norm, 1, 1e-6);
  }
  // Mean 0 and variance 1/d in each coordinate within five standard deviations; mean of x^4 is 3 / (d (d + 2)).
  for (size_t i = 0; i < kDimension; ++i) {
    EXPECT_NEAR(sum[i] / kRows, 0, 5 / std::sqrt(double{kRows} * kDimension));
    EXPECT_NEAR(squares[i] / kRows, 1.0 / kDimension, 5 * std::sqrt(2.0 / kRows) / kDimension);
  }
  EXPECT_NEAR(fourth / (kRows * kDimension), 3.0 / (kDimension * (kDimension + 2)), 1e-2 * 3 / (kDimension * 52.0));
}

// P(label = 1 | t) = sigmoid(5.6 t) with t = sqrt(d) <u, x>: right in every part of the range, and the best classifier
// (the sign of t) is right in 90.5 % of the cases.
TEST(UnitSphere, LabelsFollowTheLogisticModel) {
  constexpr int64_t kRows = 20000, kDimension = 400;
  const Made made(epsilon(kRows, 1, kDimension), 2);
  const std::vector<double> direction = unit_sphere_direction(42, kDimension);
  double norm = 0;
  for (const double value : direction) norm += value * value;
  EXPECT_NEAR(norm, 1, 1e-12);

  struct Bin {
    double expected = 0, variance = 0, ones = 0;
  };
  std::vector<Bin> bins(8);
  int64_t right = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    double t = 0;
    for (int64_t i = 0; i < kDimension; ++i) {
      t += direction[static_cast<size_t>(i)] * made.features[static_cast<size_t>(row * kDimension + i)];
    }
    t *= std::sqrt(double{kDimension});
    const double p = 1 / (1 + std::exp(-5.6 * t));
    const int64_t label = made.labels[static_cast<size_t>(row)];
    Bin& bin = bins[std::min<size_t>(static_cast<size_t>(p * 8), 7)];
    bin.expected += p;
    bin.variance += p * (1 - p);
    bin.ones += static_cast<double>(label);
    right += label == (t > 0 ? 1 : 0) ? 1 : 0;
  }
  for (const Bin& bin : bins) EXPECT_NEAR(bin.ones, bin.expected, 5 * std::sqrt(bin.variance));
  EXPECT_NEAR(100.0 * static_cast<double>(right) / kRows, 90.5, 1.0);
}

TEST(UnitSphere, GoesIntoACacheLikeAnyData) {
  const TemporaryFolder cache;
  const DatasetDescription description = epsilon(3000, 700, 20);
  std::vector<std::string> lines;
  const PreparedDataset data =
      make_synthetic(description, cache.path(), [&](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(data.synthetic());
  EXPECT_FALSE(data.official());
  EXPECT_THAT(lines, AllOf(Contains("making synthetic epsilon"), Contains("made 3000 of 3000 rows of epsilon train"),
                           Contains("made 700 of 700 rows of epsilon test")));
  const Made train(description, 1), test(description, 1, 1);
  const auto* values = static_cast<const float*>(data.split("train").features.data);
  EXPECT_EQ(std::vector<float>(values, values + 3000 * 20), train.features);
  EXPECT_EQ(std::vector<int64_t>(data.split("test").labels.begin(), data.split("test").labels.end()), test.labels);
}

TEST(UnitSphere, RefusesWhatNoGeneratorMakes) {
  const TemporaryFolder cache;
  DatasetDescription description = epsilon(10, 10);
  description.classes = 3;
  EXPECT_THAT(message_of<UserError>([&] { make_synthetic(description, cache.path()); }),
              AllOf(HasSubstr("no synthetic data for epsilon"), HasSubstr("float32 of 3 classes")));
}

}  // namespace
}  // namespace mlbench::dataset
