#include "mlbench/framework/torch/kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "mlbench/base/random.h"

namespace mlbench::framework::torch_framework {
namespace {

int64_t volume(const PoolShape& s) { return s.samples * s.height * s.width * s.channels; }

// Values are small integers, so that ties, zeros and all-negative windows are frequent.
std::vector<float> images(const PoolShape& shape, uint64_t key) {
  RandomSequence random(key);
  std::vector<float> values(static_cast<size_t>(volume(shape)));
  for (float& value : values) value = static_cast<float>(random.below(7)) - 4;
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

const PoolShape kShapes[] = {{2, 4, 6, 32}, {1, 2, 2, 1}, {3, 6, 4, 17}, {5, 28, 28, 32}, {0, 4, 4, 8}};

TEST(ReluMaxPool, EqualsItsReferenceToTheBit) {
  for (const PoolShape& shape : kShapes) {
    std::vector<float> input = images(shape, 1);
    if (!input.empty()) input[input.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    const size_t count = input.size() / 4;
    std::vector<float> output(count, -1), expected(count, -2), gradient(count);
    std::vector<uint8_t> winner(count, 9), expected_winner(count, 8);
    relu_max_pool(input.data(), shape, output.data(), winner.data());
    relu_max_pool_reference(input.data(), shape, expected.data(), expected_winner.data());
    EXPECT_TRUE(same_bits(output, expected)) << shape.channels;
    EXPECT_EQ(winner, expected_winner) << shape.channels;

    for (size_t i = 0; i < count; ++i) gradient[i] = static_cast<float>(i) + 1;
    std::vector<float> dx(input.size(), -1), expected_dx(input.size(), -2);
    relu_max_pool_backward(gradient.data(), winner.data(), shape, dx.data());
    relu_max_pool_backward_reference(gradient.data(), winner.data(), shape, expected_dx.data());
    EXPECT_TRUE(same_bits(dx, expected_dx)) << shape.channels;
  }
}

TEST(ReluMaxPool, EqualsLibTorchsTwoOperationsToTheBit) {
  for (const PoolShape& shape : kShapes) {
    if (shape.samples == 0) continue;
    std::vector<float> input = images(shape, 2);
    const at::Tensor nhwc = at::from_blob(input.data(), {shape.samples, shape.height, shape.width, shape.channels});
    const at::Tensor x = nhwc.permute({0, 3, 1, 2}).contiguous().requires_grad_(true);
    const at::Tensor y = at::max_pool2d(at::relu(x), {2, 2});
    const at::Tensor dy = at::arange(1, y.numel() + 1, at::kFloat).view(y.sizes());
    y.backward(dy);

    const size_t count = input.size() / 4;
    std::vector<float> output(count), dx(input.size());
    std::vector<uint8_t> winner(count);
    relu_max_pool(input.data(), shape, output.data(), winner.data());
    const at::Tensor dy_nhwc = dy.permute({0, 2, 3, 1}).contiguous();
    relu_max_pool_backward(dy_nhwc.data_ptr<float>(), winner.data(), shape, dx.data());
    const auto as_nchw = [](std::vector<float>& values, at::IntArrayRef sizes) {
      return at::from_blob(values.data(), {sizes[0], sizes[2], sizes[3], sizes[1]}).permute({0, 3, 1, 2});
    };
    EXPECT_TRUE(at::equal(as_nchw(output, y.sizes()), y)) << shape.channels;
    EXPECT_TRUE(at::equal(as_nchw(dx, x.sizes()), x.grad())) << shape.channels;
  }
}

struct Rows {
  Rows(int64_t count, int64_t volume) : values(static_cast<size_t>(count * volume)) {
    RandomSequence random(3);
    for (float& value : values) value = static_cast<float>(random.normal());
    for (int64_t i = 0; i < 37; ++i)
      numbers.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(count))));
  }
  std::vector<float> values;
  std::vector<int64_t> numbers;  // some twice
};

TEST(RowsTimesVector, EqualsFloat64InBothForms) {
  for (const int64_t volume : {1, 5, 63, 64, 65, 500, 2000}) {
    const Rows rows(50, volume);
    const Rows weights(1, volume);
    for (const bool gathered : {false, true}) {
      SCOPED_TRACE(::testing::Message() << volume << " values, " << (gathered ? "gathered" : "dense"));
      const RowSelection selection{rows.values.data(), gathered ? rows.numbers.data() : nullptr, 37, volume};
      std::vector<float> output(37), gradient(static_cast<size_t>(volume), 0.5F), added = gradient;
      rows_times_vector(selection, weights.values.data(), output.data());
      rows_times_vector_backward(selection, output.data(), false, gradient.data());
      rows_times_vector_backward(selection, output.data(), true, added.data());

      std::vector<double> expected(static_cast<size_t>(volume)), sizes(static_cast<size_t>(volume));
      for (int64_t i = 0; i < 37; ++i) {
        const float* row = rows.values.data() + (gathered ? rows.numbers[static_cast<size_t>(i)] : i) * volume;
        double dot = 0, size = 0;
        for (int64_t j = 0; j < volume; ++j) {
          const auto column = static_cast<size_t>(j);
          dot += double{row[j]} * weights.values[column];
          size += std::abs(double{row[j]} * weights.values[column]);
          expected[column] += double{output[static_cast<size_t>(i)]} * row[j];
          sizes[column] += std::abs(double{output[static_cast<size_t>(i)]} * row[j]);
        }
        EXPECT_NEAR(output[static_cast<size_t>(i)], dot, 4e-6 * size);
      }
      for (size_t j = 0; j < gradient.size(); ++j) {
        EXPECT_NEAR(gradient[j], expected[j], 5e-6 * sizes[j]);
        EXPECT_NEAR(added[j], expected[j] + 0.5, 5e-6 * (sizes[j] + 0.5));
      }
    }
  }
}

TEST(RowsTimesVector, TheNumberOfThreadsDoesNotMatter) {
  const Rows rows(50, 2003), weights(1, 2003);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    const RowSelection selection{rows.values.data(), rows.numbers.data(), 37, 2003};
    std::vector<float> result(37 + 2003);
    rows_times_vector(selection, weights.values.data(), result.data());
    rows_times_vector_backward(selection, result.data(), false, result.data() + 37);
    results.push_back(result);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

}  // namespace
}  // namespace mlbench::framework::torch_framework
