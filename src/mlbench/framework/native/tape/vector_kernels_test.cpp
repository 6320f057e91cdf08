#include "mlbench/framework/native/tape/vector_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/framework/native/tape/bfloat16.h"

namespace mlbench::framework::native_framework {
namespace {

using Doubles = std::vector<double>;

template <typename T>
std::vector<T> random_values(int64_t count, uint64_t key, double centre = 0) {
  RandomSequence random(key);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(rounded_to<T>(static_cast<float>(centre + random.normal())));
  return values;
}

// Checks the relative error in the norm.
template <typename Values>
void expect_near(const Values& ours, const Doubles& exact, const char* what, double limit) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    double value = 0;
    if constexpr (std::is_same_v<Values, Doubles>) {
      value = ours[i];
    } else {
      value = value_of(ours[i]);
    }
    error += std::pow(value - exact[i], 2);
    norm += std::pow(exact[i], 2);
  }
  EXPECT_LE(std::sqrt(error), limit * std::sqrt(norm) + 1e-30) << what;
}

struct Case {
  InstructionSet set;
  int lanes;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const InstructionSet set : instruction_sets()) {
    for (const int lanes : {8, 16}) all.push_back({set, lanes});
  }
  return all;
}

template <typename T>
class VectorKernelsOf : public testing::Test {};
using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(VectorKernelsOf, Types);

template <typename T>
constexpr double kLimit = std::is_same_v<T, float> ? 4e-7 : 4e-3;

TYPED_TEST(VectorKernelsOf, NormalisationEqualsFloat64) {
  using T = TypeParam;
  for (const Case& test : cases()) {
    const VectorKernels<T>& kernels = vector_kernels<T>(test.set, test.lanes);
    for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{64}, int64_t{197}}) {
      SCOPED_TRACE(std::string(name_of(test.set)) + ", " + std::to_string(test.lanes) + " lanes, " +
                   std::to_string(rows) + " rows");
      const auto lanes = static_cast<size_t>(test.lanes);
      const int64_t count = rows * test.lanes;
      const auto x = random_values<T>(count, 1, 3), addend = random_values<T>(count, 2),
                 dy = random_values<T>(count, 3);
      const auto mean = random_values<float>(test.lanes, 4, 3), scale = random_values<float>(test.lanes, 5, 1),
                 bias = random_values<float>(test.lanes, 6), b = random_values<float>(test.lanes, 7);
      const auto lane = [&](size_t i) { return i % lanes; };

      Doubles sum(lanes, 1), squares(lanes, 2), exact_sum(lanes, 1), exact_squares(lanes, 2);
      kernels.moments(x.data(), rows, sum.data(), squares.data());
      for (size_t i = 0; i < x.size(); ++i) {
        exact_sum[lane(i)] += value_of(x[i]);
        exact_squares[lane(i)] += std::pow(static_cast<double>(value_of(x[i])), 2);
      }
      expect_near(sum, exact_sum, "sum", 4e-7);
      expect_near(squares, exact_squares, "squares", 4e-7);

      for (const bool relu : {false, true}) {
        for (const bool adds : {false, true}) {
          std::vector<T> y(x.size());
          Doubles exact;
          kernels.normalise(x.data(), adds ? addend.data() : nullptr, rows, mean.data(), scale.data(), bias.data(),
                            relu, y.data());
          for (size_t i = 0; i < x.size(); ++i) {
            const double value = (static_cast<double>(value_of(x[i])) - mean[lane(i)]) * scale[lane(i)] +
                                 bias[lane(i)] + (adds ? value_of(addend[i]) : 0.0F);
            exact.push_back(relu ? std::max(0.0, value) : value);
          }
          expect_near(y, exact, "normalise", kLimit<T>);

          std::vector<T> g(x.size());
          Doubles product(lanes), exact_g, exact_product(lanes);
          sum.assign(lanes, 0);
          exact_sum.assign(lanes, 0);
          kernels.norm_sums(x.data(), relu ? y.data() : nullptr, dy.data(), adds ? addend.data() : nullptr, rows,
                            mean.data(), g.data(), sum.data(), product.data());
          for (size_t i = 0; i < x.size(); ++i) {
            const double whole = static_cast<double>(value_of(dy[i])) + (adds ? value_of(addend[i]) : 0.0F);
            exact_g.push_back(relu && !(value_of(y[i]) > 0) ? 0 : whole);
            exact_sum[lane(i)] += exact_g.back();
            exact_product[lane(i)] += exact_g.back() * (static_cast<double>(value_of(x[i])) - mean[lane(i)]);
          }
          expect_near(g, exact_g, "g", kLimit<T>);
          expect_near(sum, exact_sum, "sum of g", 2e-6);
          expect_near(product, exact_product, "product", 2e-6);

          std::vector<T> dx(x.size());
          Doubles exact_dx;
          kernels.norm_input(x.data(), dy.data(), adds ? addend.data() : nullptr, rows, mean.data(), scale.data(),
                             b.data(), bias.data(), dx.data());
          for (size_t i = 0; i < x.size(); ++i) {
            exact_dx.push_back(static_cast<double>(scale[lane(i)]) * value_of(dy[i]) +
                               static_cast<double>(b[lane(i)]) * (value_of(x[i]) - mean[lane(i)]) + bias[lane(i)] +
                               (adds ? value_of(addend[i]) : 0.0F));
          }
          expect_near(dx, exact_dx, "dx", kLimit<T>);
        }
      }
      for (const bool adds : {false, true}) {
        std::vector<T> y(x.size()), dx = addend;
        kernels.relu(addend.data(), rows, y.data());
        kernels.relu_backward(y.data(), dy.data(), rows, adds, dx.data());
        Doubles exact_y, exact_dx;
        for (size_t i = 0; i < x.size(); ++i) {
          exact_y.push_back(std::max(0.0F, value_of(addend[i])));
          exact_dx.push_back((value_of(addend[i]) > 0 ? value_of(dy[i]) : 0.0F) + (adds ? value_of(addend[i]) : 0.0F));
        }
        expect_near(y, exact_y, "relu", 0);
        expect_near(dx, exact_dx, "relu, backward", kLimit<T>);
      }
      std::vector<T> total(x.size());
      Doubles exact_total;
      kernels.add(x.data(), addend.data(), rows, total.data());
      for (size_t i = 0; i < x.size(); ++i)
        exact_total.push_back(static_cast<double>(value_of(x[i])) + value_of(addend[i]));
      expect_near(total, exact_total, "add", kLimit<T>);
    }
  }
}

int64_t squares_along(int64_t extent, const PoolShape& shape) {
  return (extent + 2 * shape.padding - shape.kernel) / shape.stride + 1;
}

// Values have few digits, so that ties are common and the answers exact.
TYPED_TEST(VectorKernelsOf, MaxPoolPicksTheFirstLargestAndHandsItTheGradient) {
  using T = TypeParam;
  for (const Case& test : cases()) {
    const VectorKernels<T>& kernels = vector_kernels<T>(test.set, test.lanes);
    for (const PoolShape shape : {PoolShape{4, 6, 2, 2, 0}, PoolShape{3, 9, 3, 3, 0}, PoolShape{8, 6, 3, 2, 1},
                                  PoolShape{7, 5, 3, 1, 1}, PoolShape{7, 8, 2, 3, 0}}) {
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(std::string(name_of(test.set)) + ", " + std::to_string(test.lanes) + " lanes, kernel " +
                     std::to_string(shape.kernel) + ", stride " + std::to_string(shape.stride) +
                     (relu ? ", relu" : ""));
        RandomSequence random(9);
        const auto in = static_cast<size_t>(shape.height * shape.width * test.lanes);
        const int64_t columns = squares_along(shape.width, shape);
        const auto out = static_cast<size_t>(squares_along(shape.height, shape) * columns * test.lanes);
        std::vector<T> x, dy, y(out), dx(in);
        for (size_t i = 0; i < in; ++i) x.push_back(rounded_to<T>(static_cast<float>(random.below(5)) - 3));
        for (size_t i = 0; i < out; ++i) dy.push_back(rounded_to<T>(static_cast<float>(random.below(9)) + 1));
        std::vector<uint8_t> winner(out);
        kernels.max_pool(x.data(), shape, relu, y.data(), winner.data());
        kernels.max_pool_backward(dy.data(), winner.data(), shape, dx.data());

        std::vector<float> expected_dx(in, 0.0F);
        const auto lanes = static_cast<int64_t>(test.lanes);
        for (int64_t i = 0; i < static_cast<int64_t>(out); ++i) {
          const int64_t square = i / lanes;
          size_t best = in;  // no pixel yet
          for (int64_t k = 0; k < shape.kernel * shape.kernel; ++k) {
            const int64_t row = square / columns * shape.stride - shape.padding + k / shape.kernel;
            const int64_t column = square % columns * shape.stride - shape.padding + k % shape.kernel;
            if (row < 0 || row >= shape.height || column < 0 || column >= shape.width) continue;
            const auto at = static_cast<size_t>((row * shape.width + column) * lanes + i % lanes);
            if (best == in || value_of(x[at]) > value_of(x[best])) best = at;
          }
          const float largest = value_of(x[best]);
          ASSERT_EQ(value_of(y[static_cast<size_t>(i)]), relu ? std::max(0.0F, largest) : largest);
          if (!relu || largest > 0) expected_dx[best] += value_of(dy[static_cast<size_t>(i)]);
        }
        for (size_t i = 0; i < in; ++i) ASSERT_EQ(value_of(dx[i]), expected_dx[i]) << i;
      }
    }
  }
}

TYPED_TEST(VectorKernelsOf, NotANumberPasses) {
  using T = TypeParam;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Case& test : cases()) {
    const VectorKernels<T>& kernels = vector_kernels<T>(test.set, test.lanes);
    const auto count = static_cast<size_t>(4 * test.lanes);
    std::vector<T> x(count, rounded_to<T>(-1)), y(count);
    x.back() = rounded_to<T>(nan);
    const std::vector<float> zero(count, 0.0F), one(count, 1.0F);
    kernels.normalise(x.data(), nullptr, 4, zero.data(), one.data(), zero.data(), true, y.data());
    EXPECT_TRUE(std::isnan(value_of(y.back())));
    EXPECT_EQ(value_of(y[0]), 0);
    y.assign(count, rounded_to<T>(1));
    kernels.relu(x.data(), 4, y.data());
    EXPECT_TRUE(std::isnan(value_of(y.back())));
    EXPECT_EQ(value_of(y[0]), 0);
    std::vector<uint8_t> winner(count);
    kernels.max_pool(x.data(), {2, 2, 2, 2, 0}, true, y.data(), winner.data());
    EXPECT_TRUE(std::isnan(value_of(y[static_cast<size_t>(test.lanes) - 1])));
  }
}

TEST(RowKernelsTest, EqualFloat64) {
  for (const InstructionSet set : instruction_sets()) {
    const RowKernels& kernels = row_kernels(set);
    for (const int64_t count : {int64_t{1}, int64_t{17}, int64_t{64}, int64_t{2000}}) {
      SCOPED_TRACE(std::string(name_of(set)) + ", " + std::to_string(count));
      const auto row = random_values<float>(count, 1), weight = random_values<float>(count, 2),
                 next = random_values<float>(count, 3);
      double exact = 0, size = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        exact += static_cast<double>(row[i]) * weight[i];
        size += std::abs(static_cast<double>(row[i]) * weight[i]);
      }
      EXPECT_NEAR(kernels.dot(row.data(), weight.data(), count, next.data()), exact, 2e-7 * size);
      std::vector<float> sum = weight;
      sum.push_back(7);
      kernels.add_scaled(row.data(), 0.25F, count, nullptr, sum.data());
      Doubles expected;
      for (size_t i = 0; i < row.size(); ++i) expected.push_back(weight[i] + 0.25 * row[i]);
      expect_near(std::vector<float>(sum.begin(), sum.end() - 1), expected, "add_scaled", 2e-7);
      EXPECT_EQ(sum.back(), 7);
    }
  }
}

}  // namespace
}  // namespace mlbench::framework::native_framework
