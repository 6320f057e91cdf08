#include "mlbench/framework/torch/kernels.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "mlbench/base/random.h"

namespace mlbench::framework::torch_framework {
namespace {

int64_t volume(const PoolShape& s) { return s.samples * s.height * s.width * s.channels; }

// Small integers, so that ties, zeros and all-negative windows are frequent.
std::vector<float> images(const PoolShape& shape, uint64_t key) {
  RandomSequence random(key);
  std::vector<float> values(static_cast<size_t>(volume(shape)));
  for (float& value : values) value = static_cast<float>(random.below(7)) - 4;
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
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

TEST(DropoutMask, EqualsItsReferenceToTheBit) {
  for (const size_t count : {0, 1, 5, 255, 256, 257, 102400}) {
    for (const double p : {0.0, 0.4, 0.5, 0.999}) {
      std::vector<float> mask(count, -1), expected(count, -2);
      dropout_mask(123456789012345ULL + count, p, mask);
      dropout_mask_reference(123456789012345ULL + count, p, expected);
      EXPECT_TRUE(same_bits(mask, expected)) << count << " elements, p " << p;
    }
  }
}

TEST(DropoutMask, DropsAShareOfPAndScalesTheRest) {
  std::vector<float> mask(1 << 20);
  dropout_mask(7, 0.4, mask);
  double kept = 0;
  for (const float value : mask) {
    ASSERT_TRUE(value == 0 || value == static_cast<float>(1 / 0.6));
    kept += value != 0;
  }
  const auto n = static_cast<double>(mask.size());
  EXPECT_NEAR(kept / n, 0.6, 4 * std::sqrt(0.24 / n));
}

}  // namespace
}  // namespace mlbench::framework::torch_framework
