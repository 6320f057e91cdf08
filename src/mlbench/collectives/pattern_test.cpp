#include "mlbench/collectives/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// One element after the other, in the type.
std::vector<std::byte> written(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* to = bytes.data() + i * size_of(dtype);
    const auto as_float = static_cast<float>(values[i]);
    const uint16_t half =
        dtype == DType::kFloat16 ? comm::float_to_float16(as_float) : comm::float_to_bfloat16(as_float);
    if (dtype == DType::kFloat64) std::memcpy(to, &values[i], sizeof(double));
    if (dtype == DType::kFloat32) std::memcpy(to, &as_float, sizeof as_float);
    if (size_of(dtype) == 2) std::memcpy(to, &half, sizeof half);
  }
  return bytes;
}

int mantissa_bits(DType dtype) {
  return dtype == DType::kFloat16 ? 11 : dtype == DType::kBFloat16 ? 8 : dtype == DType::kFloat32 ? 24 : 53;
}

// NCCL's ncclAvg computes the reciprocal in the type, a product, then the sum.
TEST(Pattern, AnAverageOfScaledValuesIsRight) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    size_t rounded_ones = 0;
    for (const int ranks : {2, 3, 4, 5, 6, 7, 12, 64, 100}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        const Reduced what{dtype, Reduction::kAvg, ranks, seed, true};
        std::vector<double> sum(static_cast<size_t>(kPeriod), 0);
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<double> given = period_of(dtype, given_pattern(what, rank));
          for (size_t i = 0; i < sum.size(); ++i) {
            sum[i] = rounded(dtype, sum[i] + rounded(dtype, given[i] * rounded(dtype, 1.0 / ranks)));
          }
        }
        const Pattern outcome = outcome_pattern(what);
        const std::vector<std::byte> scaled = written(dtype, sum);
        EXPECT_EQ(outcome.differing(scaled.data(), 0, kPeriod), 0) << name_of(dtype) << " of " << ranks << " ranks";
        const auto strict = outcome_pattern({dtype, Reduction::kAvg, ranks, seed}).differing(scaled.data(), 0, kPeriod);
        if (ranks == 2 || ranks == 4 || ranks == 64) {
          EXPECT_EQ(strict, 0) << "of a power of two all are exact";
        }
        rounded_ones += static_cast<size_t>(strict);

        std::vector<double> off = period_of(dtype, outcome);
        const double factor = 1 + (ranks + 6) * std::pow(2, -mantissa_bits(dtype));
        for (double& value : off) value = rounded(dtype, value * factor);
        off[0] = std::nan("");
        const auto bytes = written(dtype, off);
        EXPECT_GE(outcome.differing(bytes.data(), 0, kPeriod), kPeriod / 2) << name_of(dtype) << " of " << ranks;
      }
    }
    EXPECT_GT(rounded_ones, 100u) << name_of(dtype) << ": without the bound right ones are called wrong";
  }
  EXPECT_GT(outcome_pattern({DType::kInt32, Reduction::kAvg, 3, 0, true})
                .differing(std::vector<std::byte>(static_cast<size_t>(kPeriod) * 4).data(), 0, kPeriod),
            0);
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
