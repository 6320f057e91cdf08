#include "mlbench/framework/torch/batch_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mlbench/base/random.h"

namespace mlbench::framework::torch_framework {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats random_values(int64_t count, uint64_t key, double centre = 0) {
  RandomSequence random(key);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(centre + random.normal());
  return values;
}

// Checks the relative error in the norm.
void expect_near(const Floats& ours, const Doubles& exact, const char* what, double limit = 4e-7) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(ours[i] - exact[i], 2);
    norm += std::pow(exact[i], 2);
  }
  EXPECT_LE(std::sqrt(error), limit * std::sqrt(norm) + 1e-30) << what;
}

class BatchNormKernels : public testing::TestWithParam<NormShape> {};

TEST_P(BatchNormKernels, EqualTheirReferences) {
  const NormShape shape = GetParam();
  const int64_t count = shape.rows * shape.channels;
  const Floats x = random_values(count, 1, 3), addend = random_values(count, 2), dy = random_values(count, 3);
  const Floats weight = random_values(shape.channels, 4, 1), bias = random_values(shape.channels, 5);
  const auto c = static_cast<size_t>(shape.channels);

  Floats mean(c), variance(c), inv_std(c);
  Doubles exact_mean(c), exact_variance(c);
  batch_statistics(x.data(), shape, mean.data(), variance.data());
  batch_statistics_reference(x.data(), shape, exact_mean.data(), exact_variance.data());
  expect_near(mean, exact_mean, "mean");
  expect_near(variance, exact_variance, "variance");
  for (size_t i = 0; i < c; ++i) inv_std[i] = 1 / std::sqrt(variance[i] + 1e-5F);
  const NormParameters parameters{mean.data(), inv_std.data(), weight.data(), bias.data()};

  for (const bool relu : {false, true}) {
    for (const float* with : {static_cast<const float*>(nullptr), addend.data()}) {
      Floats y(x.size());
      Doubles exact(x.size());
      batch_norm_forward(x.data(), with, shape, parameters, relu, y.data());
      batch_norm_forward_reference(x.data(), with, shape, parameters, relu, exact.data());
      expect_near(y, exact, "forward");
      for (const bool of_batch : {false, true}) {
        Floats dx(x.size()), d_addend(x.size()), dw(c), db(c);
        Doubles exact_dx(x.size()), exact_d_addend(x.size()), exact_dw(c), exact_db(c);
        batch_norm_backward(x.data(), y.data(), dy.data(), shape, parameters, relu, of_batch, dx.data(),
                            with != nullptr ? d_addend.data() : nullptr, dw.data(), db.data());
        batch_norm_backward_reference(x.data(), y.data(), dy.data(), shape, parameters, relu, of_batch, exact_dx.data(),
                                      exact_d_addend.data(), exact_dw.data(), exact_db.data());
        expect_near(dx, exact_dx, "dx");
        expect_near(dw, exact_dw, "d_weight", 4e-6);  // sums of many terms that nearly cancel
        expect_near(db, exact_db, "d_bias", 4e-6);
        if (with != nullptr) expect_near(d_addend, exact_d_addend, "d_addend");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNormKernels,
                         testing::Values(NormShape{1024, 16}, NormShape{3001, 16}, NormShape{777, 32}, NormShape{5, 64},
                                         NormShape{1031, 48}));

TEST(BatchNormKernel, DoesNotDependOnTheNumberOfThreads) {
  const NormShape shape{20000, 16};
  const Floats x = random_values(shape.rows * shape.channels, 1);
  Floats mean[2], variance[2];
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    mean[threads - 1].resize(16), variance[threads - 1].resize(16);
    batch_statistics(x.data(), shape, mean[threads - 1].data(), variance[threads - 1].data());
  }
  EXPECT_EQ(mean[0], mean[1]);
  EXPECT_EQ(variance[0], variance[1]);
}

TEST(BatchNormKernel, NanPassesThroughRelu) {
  const NormShape shape{1, 16};
  Floats x(16, NAN), y(16), ones(16, 1);
  batch_norm_forward(x.data(), nullptr, shape, {ones.data(), ones.data(), ones.data(), ones.data()}, true, y.data());
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace mlbench::framework::torch_framework
