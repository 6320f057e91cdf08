#include "mlbench/collectives/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "mlbench/comm/half.h"

namespace mlbench::collectives {
namespace {

using spec::Reduction;

double value_at(DType dtype, const std::byte* from) {
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kUInt8:
      return as(uint8_t{});
    case DType::kInt8:
      return as(int8_t{});
    case DType::kInt32:
      return as(int32_t{});
    case DType::kInt64:
      return static_cast<double>(as(int64_t{}));
    case DType::kFloat16:
      return comm::float16_to_float(as(uint16_t{}));
    case DType::kBFloat16:
      return comm::bfloat16_to_float(as(uint16_t{}));
    case DType::kFloat32:
      return as(float{});
    case DType::kFloat64:
      return as(double{});
  }
  return 0;
}

std::vector<double> period_of(DType dtype, const Pattern& pattern) {
  std::vector<std::byte> bytes(static_cast<size_t>(kPeriod) * size_of(dtype));
  pattern.write(bytes.data(), 0, kPeriod);
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += size_of(dtype)) values.push_back(value_at(dtype, bytes.data() + at));
  return values;
}

// Wraps as the integer type does; floats come back unchanged only where they are exact.
double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::kUInt8:
      return static_cast<uint8_t>(static_cast<int64_t>(value));
    case DType::kInt8:
      return static_cast<int8_t>(static_cast<int64_t>(value));
    case DType::kFloat16:
      return comm::float16_to_float(comm::float_to_float16(static_cast<float>(value)));
    case DType::kBFloat16:
      return comm::bfloat16_to_float(comm::float_to_bfloat16(static_cast<float>(value)));
    case DType::kFloat32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

TEST(Pattern, RepeatsFromAnyPlaceAtAnyAddress) {
  const Pattern pattern = moved_pattern(DType::kInt32, 1, 2, 3);
  const int64_t count = 40 * kPeriod + 17;
  std::vector<std::byte> bytes(static_cast<size_t>(count) * 4 + 1);
  for (const int64_t first : {int64_t{0}, int64_t{1}, kPeriod - 1, 1000 * kPeriod + 5}) {
    pattern.write(bytes.data() + 1, first, count);
    EXPECT_EQ(pattern.differing(bytes.data() + 1, first, count), 0);
    const std::vector<double> period = period_of(DType::kInt32, pattern);
    for (const int64_t i : {int64_t{0}, int64_t{16}, kPeriod, count - 1}) {
      EXPECT_EQ(value_at(DType::kInt32, bytes.data() + 1 + i * 4), period[static_cast<size_t>((first + i) % kPeriod)]);
    }
  }
}

TEST(Pattern, EveryWrongElementIsCounted) {
  const Pattern pattern = moved_pattern(DType::kFloat16, 0, 0, 0);
  const int64_t count = 33 * kPeriod;
  std::vector<std::byte> bytes(static_cast<size_t>(count) * 2);
  pattern.write(bytes.data(), 0, count);
  for (const size_t at : {size_t{0}, size_t{2 * 4016}, size_t{2 * 4016 + 1}, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
  }
  EXPECT_EQ(pattern.differing(bytes.data(), 0, count), 3) << "two of the bytes are of one element";
  EXPECT_GT(pattern.differing(bytes.data(), 1, count - 1), count / 2) << "a shift is no small error";
}

TEST(Pattern, RanksSlicesAndTurnsDiffer) {
  std::set<std::string> seen;
  for (int source = 0; source < 5; ++source) {
    for (int destination = 0; destination < 5; ++destination) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        std::string bytes(static_cast<size_t>(kPeriod), '\0');
        moved_pattern(DType::kInt8, source, destination, seed)
            .write(reinterpret_cast<std::byte*>(bytes.data()), 0, kPeriod);
        EXPECT_TRUE(seen.insert(bytes).second) << source << " " << destination << " " << seed;
      }
    }
  }
}

// The heart of it: combining what the ranks give, in order and backwards, rounding to the type after each operation,
// gives the outcome.
TEST(Pattern, ReductionsAreExactInEveryOrder) {
  for (const DType dtype : spec::collective_dtypes()) {
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg}) {
      for (const int ranks : {1, 2, 3, 5, 7, 16, 64, 300}) {
        const Reduced what{dtype, reduction, ranks, 5};
        std::vector<std::vector<double>> given;
        for (int rank = 0; rank < ranks; ++rank) given.push_back(period_of(dtype, given_pattern(what, rank)));
        const std::vector<double> expected = period_of(dtype, outcome_pattern(what));
        for (const bool backwards : {false, true}) {
          std::vector<double> outcome = given[backwards ? given.size() - 1 : 0];
          for (size_t i = 1; i < given.size(); ++i) {
            const std::vector<double>& next = given[backwards ? given.size() - 1 - i : i];
            for (size_t place = 0; place < outcome.size(); ++place) {
              const double a = outcome[place], b = next[place];
              outcome[place] = reduction == Reduction::kMin    ? std::min(a, b)
                               : reduction == Reduction::kMax  ? std::max(a, b)
                               : reduction == Reduction::kProd ? rounded(dtype, a * b)
                                                               : rounded(dtype, a + b);
            }
          }
          if (reduction == Reduction::kAvg) {
            for (double& value : outcome) value = rounded(dtype, value / ranks);
          }
          EXPECT_EQ(outcome, expected) << name_of(dtype) << " " << name_of(reduction) << " of " << ranks << " ranks";
        }
      }
    }
  }
}

TEST(Pattern, OutcomesAreNotAllTheSameNumber) {
  for (const DType dtype : spec::collective_dtypes()) {
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg}) {
      for (const int ranks : {2, 3, 5, 8}) {
        const std::vector<double> values = period_of(dtype, outcome_pattern({dtype, reduction, ranks, 1}));
        EXPECT_GE(std::set<double>(values.begin(), values.end()).size(), 4u)
            << name_of(dtype) << " " << name_of(reduction) << " of " << ranks << " ranks";
      }
    }
  }
}

}  // namespace
}  // namespace mlbench::collectives
