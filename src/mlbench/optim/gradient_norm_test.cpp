#include "mlbench/optim/gradient_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mlbench/base/random.h"

namespace mlbench::optim {
namespace {

std::vector<float> random_values(size_t count) {
  RandomSequence random(5);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

TEST(GradientNorm, EqualsItsReferenceToTheBit) {
  const std::vector<float> values = random_values(40007);
  for (const int64_t count : {0, 1, 15, 16, 17, 100, 4096, 40007}) {
    EXPECT_EQ(sum_of_squares(values.data(), count), sum_of_squares_reference(values.data(), count)) << count;
  }
}

TEST(GradientNorm, IsThatOfAllTensorsWithoutPadding) {
  const FlatLayout layout{.ranges = {{"a", {2}, 0, 2, true}, {"b", {3}, 16, 3, true}, {"mean", {4}, 0, 4, false}},
                          .parameter_elements = 32};
  at::Tensor gradients = at::full({32}, 1000, at::kFloat);
  gradients.narrow(0, 0, 2).copy_(at::tensor({1.0F, 2.0F}));
  gradients.narrow(0, 16, 3).copy_(at::tensor({2.0F, -4.0F, 0.0F}));
  EXPECT_EQ(GradientNorm(layout).of(gradients), 5);
}

TEST(GradientNorm, IsTheSameForEveryNumberOfThreads) {
  constexpr int64_t kCount = 300007;
  const FlatLayout layout{.ranges = {{"a", {kCount}, 0, kCount, true}}, .parameter_elements = kCount};
  const at::Tensor gradients = at::tensor(random_values(kCount));
  GradientNorm norm(layout);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = norm.of(gradients);
  at::set_num_threads(4);
  EXPECT_EQ(norm.of(gradients), alone);
  at::set_num_threads(threads);
  EXPECT_NEAR(alone, gradients.to(at::kDouble).norm().item<double>(), 1e-12 * alone);
}

TEST(GradientNorm, IsFiniteIfAndOnlyIfEveryElementIs) {
  constexpr int64_t kCount = 70000;
  const FlatLayout layout{.ranges = {{"a", {kCount}, 0, kCount, true}}, .parameter_elements = kCount};
  GradientNorm norm(layout);
  const at::Tensor largest = at::full({kCount}, std::numeric_limits<float>::max(), at::kFloat);
  EXPECT_TRUE(std::isfinite(norm.of(largest)));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::nanf("")}) {
    for (const int64_t at : {int64_t{0}, int64_t{40000}, kCount - 1}) {
      at::Tensor gradients = at::ones({kCount});
      gradients[at].fill_(value);
      EXPECT_FALSE(std::isfinite(norm.of(gradients))) << value << " at " << at;
    }
  }
}

}  // namespace
}  // namespace mlbench::optim
