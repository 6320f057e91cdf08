#include "mlbench/dataset/synthetic.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
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
    make_gaussian_rows({description, split, threads, {}}, {std::as_writable_bytes(std::span(features)), labels});
  }
  std::vector<float> features;
  std::vector<int64_t> labels;
};

TEST(GaussianRows, TheNumberOfThreadsDoesNotMatter) {
  const DatasetDescription description = epsilon(2777, 10, 33);
  const Made one(description, 1);
  for (const unsigned threads : {2U, 3U, 8U}) {
    const Made many(description, threads);
    EXPECT_EQ(many.features, one.features);
    EXPECT_EQ(many.labels, one.labels);
  }
  EXPECT_NE(Made(epsilon(2777, 10, 33, 43), 1).features, one.features);
}

// Row i is the same however many rows there are, and differs from every row of the other split.
TEST(GaussianRows, ARowDependsOnSeedSplitAndNumberAlone) {
  const Made few(epsilon(5, 5, 33), 1), many(epsilon(600, 5, 33), 2), test(epsilon(5, 5, 33), 1, 1);
  EXPECT_EQ(few.features, std::vector<float>(many.features.begin(), many.features.begin() + 5 * 33));
  EXPECT_NE(few.features, test.features);
}

// A row and its score by their definition, from the numbers of random.h (streams 5, 3 and 4 of a seed).
struct Reference {
  std::vector<double> row, scaled;  // g, and g_i / sqrt(i) of length 1
  double score = 0;
};
std::vector<double> reference_normals(uint64_t key, uint64_t row, int64_t count) {
  std::vector<double> numbers;
  for (uint64_t block = 0; numbers.size() < static_cast<size_t>(count); ++block) {
    const auto words = philox(key, block, row);
    for (const size_t pair : {0, 2}) {
      const double radius = std::sqrt(-2 * std::log((words[pair] + 0.5) / 4294967296.0));
      const double angle = 2 * M_PI * (words[pair + 1] + 0.5) / 4294967296.0;
      numbers.insert(numbers.end(), {radius * std::cos(angle), radius * std::sin(angle)});
    }
  }
  numbers.resize(static_cast<size_t>(count));
  return numbers;
}
Reference reference_row(uint64_t split, uint64_t row, int64_t dimension) {
  Reference reference;
  reference.row = reference_normals(derive_key(42, {5, 4, split}), row, dimension);
  const std::vector<double> direction = reference_normals(derive_key(42, {5, 3}), 0, dimension);
  double direction_squares = 0, squares = 0, product = 0;
  for (size_t i = 0; i < direction.size(); ++i) {
    direction_squares += direction[i] * direction[i];
    product += direction[i] * reference.row[i];
    reference.scaled.push_back(reference.row[i] / std::sqrt(1.0 + static_cast<double>(i)));
    squares += reference.scaled[i] * reference.scaled[i];
  }
  for (double& value : reference.scaled) value /= std::sqrt(squares);
  reference.score = 6 * product / std::sqrt(direction_squares);
  return reference;
}

TEST(GaussianRows, AreWhatTheDefinitionSays) {
  const Made train(epsilon(7, 7), 2), test(epsilon(7, 7), 2, 1);
  for (uint64_t split : {0, 1}) {
    for (uint64_t row = 0; row < 7; ++row) {
      const std::vector<double> expected = reference_row(split, row, 2000).scaled;
      const float* made = (split == 0 ? train : test).features.data() + row * 2000;
      double squares = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(made[i], expected[i], 1e-7) << "split " << split << ", row " << row << ", component " << i;
        squares += double{made[i]} * made[i];
      }
      EXPECT_NEAR(squares, 1, 1e-6);
    }
  }
}

// E[x_i^2] = 1/i E[g_i^2 / L], L the sum of all g_j^2 / j, and 1/L is the integral of exp(-t L) over t from 0: so it is
// the integral of 1 / (i + 2t) times the product of all (1 + 2t/j)^(-1/2).
TEST(GaussianRows, VarianceOfTheComponentsFalls) {
  constexpr int64_t kRows = 20000, kDimension = 50;
  const Made made(epsilon(kRows, 1, kDimension), 2);
  double total = 0;
  for (int64_t i = 1; i <= kDimension; ++i) {
    constexpr int kNodes = 4000;
    double expected = 0;
    for (int node = 0; node < kNodes; ++node) {  // t = s / (1 - s), midpoints
      const double s = (node + 0.5) / kNodes, t = s / (1 - s);
      double log_product = 0;
      for (int64_t j = 1; j <= kDimension; ++j) log_product -= 0.5 * std::log1p(2 * t / static_cast<double>(j));
      expected += std::exp(log_product) / (static_cast<double>(i) + 2 * t) / ((1 - s) * (1 - s) * kNodes);
    }
    total += expected;
    double sum = 0, squares = 0, fourth = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const double value = made.features[static_cast<size_t>(row * kDimension + i - 1)];
      sum += value / kRows;
      squares += value * value / kRows;
      fourth += value * value * value * value / kRows;
    }
    EXPECT_NEAR(sum, 0, 5 * std::sqrt(expected / kRows)) << "component " << i;
    EXPECT_NEAR(squares, expected, 5 * std::sqrt((fourth - squares * squares) / kRows)) << "component " << i;
  }
  EXPECT_NEAR(total, 1, 1e-6) << "the length is 1";
}

// P(label = 1) = sigmoid(score): right in every part of the range. The score has standard deviation 6, and the linear
// classifier with weights u_i sqrt(i) is right as often as any can be, 91.1 %: the mean of sigmoid(|6 z|), z normal.
TEST(GaussianRows, LabelsFollowTheLogisticModel) {
  constexpr int64_t kRows = 20000, kDimension = 100;
  const Made made(epsilon(kRows, 1, kDimension), 2);
  const std::vector<double> direction = gaussian_rows_direction(42, kDimension);

  struct Bin {
    double expected = 0, variance = 0, ones = 0;
  };
  std::vector<Bin> bins(8);
  double squares = 0;
  int64_t right = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const double score = reference_row(0, static_cast<uint64_t>(row), kDimension).score;
    squares += score * score / kRows;
    const double p = 1 / (1 + std::exp(-score));
    const int64_t label = made.labels[static_cast<size_t>(row)];
    Bin& bin = bins[std::min<size_t>(static_cast<size_t>(p * 8), 7)];
    bin.expected += p;
    bin.variance += p * (1 - p);
    bin.ones += static_cast<double>(label);
    double linear = 0;
    for (size_t i = 0; i < kDimension; ++i) {
      linear += direction[i] * std::sqrt(1.0 + static_cast<double>(i)) *
                made.features[static_cast<size_t>(row) * kDimension + i];
    }
    right += label == (linear > 0 ? 1 : 0) ? 1 : 0;
  }
  for (const Bin& bin : bins) EXPECT_NEAR(bin.ones, bin.expected, 5 * std::sqrt(bin.variance));
  EXPECT_NEAR(std::sqrt(squares), 6, 5 * 6 / std::sqrt(2.0 * kRows));

  double best = 0;
  for (int node = 0; node < 80000; ++node) {
    const double z = (node + 0.5) * 1e-4;
    best += 2e-4 * std::exp(-z * z / 2) / std::sqrt(2 * M_PI) / (1 + std::exp(-6 * z));
  }
  EXPECT_NEAR(best, 0.911, 0.0005);
  EXPECT_NEAR(static_cast<double>(right) / kRows, best, 5 * std::sqrt(best * (1 - best) / kRows));
}

// A change of these rows is another version of the generator.
TEST(GaussianRows, AreTheOnesOfVersionOne) {
  const Made made(epsilon(16, 1), 1);
  EXPECT_EQ(sha256_hex({reinterpret_cast<const char*>(made.features.data()), made.features.size() * sizeof(float)}),
            "bc975c419b4fe600640a377658bfbbd15739d4b49a4fa981e08a87ba17a88d17");
  EXPECT_THAT(made.labels, ElementsAre(0, 0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1));
}

TEST(GaussianRows, GoesIntoACacheLikeAnyData) {
  const TemporaryFolder cache;
  const DatasetDescription description = epsilon(3000, 700, 20);
  std::vector<std::string> lines;
  const PreparedDataset data =
      make_synthetic(description, cache.path(), [&](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(data.synthetic());
  EXPECT_FALSE(data.official());
  EXPECT_EQ(data.record()["generator"], "gaussian rows 1, seed 42");
  EXPECT_THAT(lines, AllOf(Contains("making synthetic epsilon: gaussian rows 1, seed 42"),
                           Contains("made 3000 of 3000 rows of epsilon train"),
                           Contains("made 700 of 700 rows of epsilon test")));
  const Made train(description, 1), test(description, 1, 1);
  EXPECT_THAT(data.split("train").column<FixedColumn>("features").as<float>(), ElementsAreArray(train.features));
  EXPECT_THAT(data.split("test").labels(), ElementsAreArray(test.labels));

  std::string text = "gaussian rows 1, seed 42";  // the fingerprint names the version of the generator
  for (const Made* made : {&train, &test}) {
    for (size_t row = 0; row < made->labels.size(); ++row) {
      text.append(reinterpret_cast<const char*>(&made->features[row * 20]), 20 * sizeof(float));
      text.append(reinterpret_cast<const char*>(&made->labels[row]), sizeof(int64_t));
    }
  }
  EXPECT_EQ(data.fingerprint(), sha256_hex(text));
}

TEST(GaussianRows, RefusesWhatNoGeneratorMakes) {
  const TemporaryFolder cache;
  DatasetDescription description = epsilon(10, 10);
  description.classes = 3;
  EXPECT_THAT(message_of<UserError>([&] { make_synthetic(description, cache.path()); }),
              AllOf(HasSubstr("no synthetic data for epsilon"), HasSubstr("float32 of 3 classes")));
}

// --- sparse rows

DatasetDescription sparse_set(int64_t train, int64_t test, int64_t dimension = 50'000) {
  DatasetDescription description = find_description("rcv1");
  description.sample_shape = {dimension};
  description.splits[0].samples = train;
  description.splits[1].samples = description.splits[1].synthetic_samples = test;
  return description;
}

TEST(MadeSparseRows, AreOfUnitNormWithRisingColumnsAndFollowOneModel) {
  const TemporaryFolder cache;
  constexpr int64_t kRows = 3000, kDimension = 50'000;
  const PreparedDataset data = make_synthetic(sparse_set(kRows, 500), cache.path());
  EXPECT_EQ(data.record()["generator"], "sparse rows 1, seed 42");
  const std::vector<double> weights = reference_normals(derive_key(42, {5, 3}), 0, kDimension);
  int64_t entries = 0, right = 0, ones = 0, first_column = 0;
  for (const std::string split : {"train", "test"}) {
    const CachedSplit& made = data.split(split);
    const auto& column = made.column<SparseColumn>("features");
    EXPECT_EQ(column.dimension, kDimension);
    for (int64_t i = 0; i < made.samples; ++i) {
      const SparseRow row = column.record(i);
      double squares = 0, score = 0;
      int32_t last = -1;
      for (const SparseEntry& entry : row) {
        ASSERT_GT(entry.column, last);
        ASSERT_LT(entry.column, kDimension);
        last = entry.column;
        squares += static_cast<double>(entry.value) * entry.value;
        score += entry.value * weights[static_cast<size_t>(entry.column)];
      }
      EXPECT_NEAR(squares, 1, 1e-6);
      const int64_t label = made.labels()[static_cast<size_t>(i)];
      entries += std::ssize(row);
      first_column += row.front().column == 0 ? 1 : 0;
      ones += label;
      right += (score > 0) == (label == 1) ? 1 : 0;
    }
  }
  EXPECT_GT(entries, 40 * 3500) << "of 74 draws, without those of a column that is there";
  EXPECT_LT(entries, 74 * 3500);
  // 1 - (1 - log(2) / log(50001))^74 of the rows have the first column.
  EXPECT_NEAR(static_cast<double>(first_column) / 3500, 0.992, 0.01);
  EXPECT_NEAR(static_cast<double>(ones) / 3500, 0.5, 0.05);
  EXPECT_NEAR(static_cast<double>(right) / 3500, 0.911, 0.02) << "of the best classifier";
}

TEST(MadeSparseRows, ARowDependsOnSeedSplitAndNumberAlone) {
  const TemporaryFolder cache;
  const PreparedDataset few = make_synthetic(sparse_set(5, 5), cache.path());
  const PreparedDataset many = make_synthetic(sparse_set(600, 5), cache.path());
  const auto& of_few = few.split("train").column<SparseColumn>("features");
  const auto& of_many = many.split("train").column<SparseColumn>("features");
  EXPECT_TRUE(std::ranges::equal(of_few.elements, of_many.elements.first(of_few.elements.size())));
  EXPECT_FALSE(std::ranges::equal(of_few.elements, few.split("test").column<SparseColumn>("features").elements));
}

}  // namespace
}  // namespace mlbench::dataset
