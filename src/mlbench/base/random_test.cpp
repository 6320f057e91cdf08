#include "mlbench/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace mlbench {
namespace {

using Block = std::array<uint32_t, 4>;

// philox4x32_10 of the known-answer file (kat_vectors) of Random123, the authors' library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The expected values below come from a separate implementation (Python integers) of the documented algorithms.
TEST(RandomSequence, ReadsTheStreamInOrder) {
  RandomSequence sequence(7);
  for (const uint64_t expected : {0xc009f9dcf4607a2dULL, 0x15edac821d3aba42ULL, 0xcb97bc13682e8e9bULL}) {
    EXPECT_EQ(sequence.next_u64(), expected);
  }
  RandomSequence reals(7);
  for (const double expected : {0.7501522221031126, 0.0856578653012815, 0.7952840373401903}) {
    EXPECT_EQ(reals.uniform(), expected);
  }
  RandomSequence normals(7);
  EXPECT_NEAR(normals.normal(), 1.4300277086839794, 1e-14);
  EXPECT_NEAR(normals.normal(), 0.8537140167271429, 1e-14);
}

TEST(RandomSequence, PermutationsAreTheSameEverywhere) {
  EXPECT_EQ(permutation(10, 1), (std::vector<int64_t>{2, 1, 5, 0, 7, 3, 4, 9, 6, 8}));
  EXPECT_EQ(derive_key(42, {2, 0}), 0xfacf83bdce98b461);
  EXPECT_EQ(permutation(10, derive_key(42, {kShuffleStream, 0})), (std::vector<int64_t>{4, 1, 6, 7, 0, 5, 3, 8, 9, 2}));
}

TEST(RandomSequence, PermutationsArePermutations) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    std::vector<int64_t> order = permutation(n, 5);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> expected(static_cast<size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
  EXPECT_NE(permutation(1000, 5), permutation(1000, 6));
}

TEST(RandomSequence, AllPermutationsAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> counts;
  constexpr int kTrials = 24000;
  for (uint64_t key = 0; key < kTrials; ++key) ++counts[permutation(4, derive_key(9, {key}))];
  EXPECT_EQ(counts.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - kTrials / 24.0, 2) / (kTrials / 24.0);
  EXPECT_LT(chi_square, 49.7);  // 23 degrees of freedom, 99.9 %
}

TEST(RandomSequence, BelowIsUniform) {
  RandomSequence sequence(11);
  constexpr int kTrials = 70000;
  std::array<int, 7> counts{};
  for (int i = 0; i < kTrials; ++i) ++counts.at(sequence.below(7));
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kTrials / 7.0, 2) / (kTrials / 7.0);
  EXPECT_LT(chi_square, 22.5);  // 6 degrees of freedom, 99.9 %
  EXPECT_EQ(sequence.below(1), 0U);
  const uint64_t large = (uint64_t{1} << 63) + 1;  // half of all draws are rejected
  for (int i = 0; i < 100; ++i) EXPECT_LT(sequence.below(large), large);
}

TEST(RandomSequence, MomentsOfUniformAndNormal) {
  constexpr int kTrials = 100000;
  RandomSequence sequence(13);
  double uniform_sum = 0;
  for (int i = 0; i < kTrials; ++i) {
    const double value = sequence.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    uniform_sum += value;
  }
  const double n = kTrials;
  EXPECT_NEAR(uniform_sum / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));  // four standard errors, here and below
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (int i = 0; i < kTrials; ++i) {
    const double value = sequence.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / n, 0.0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1.0, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3.0, 4 * std::sqrt(96 / n));
}

TEST(DeriveKey, EveryLabelCounts) {
  const std::set<uint64_t> keys = {derive_key(1, {}),     derive_key(1, {0}),    derive_key(1, {0, 0}),
                                   derive_key(1, {1, 2}), derive_key(1, {2, 1}), derive_key(2, {1, 2}),
                                   derive_key(1, {1}),    derive_key(1, {2})};
  EXPECT_EQ(keys.size(), 8U);
}

}  // namespace
}  // namespace mlbench
