#include "mlbench/optim/rules/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mlbench/base/random.h"
#include "mlbench/optim/test_ranks.h"

namespace mlbench::optim {
namespace {

constexpr int64_t kCount = 1003;
constexpr int64_t kMoreThanOnePart = (int64_t{1} << 22) + 5;

// Normally distributed; after kCount of them again from the first.
at::Tensor normal(uint64_t seed, int64_t count) {
  RandomSequence random(seed);
  at::Tensor values = at::empty({kCount});
  for (int64_t i = 0; i < kCount; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.normal());
  return values.repeat({(count + kCount - 1) / kCount}).narrow(0, 0, count).contiguous();
}

// `other` may be elsewhere.
class TensorArithmetic : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !at::globalContext().hasCUDA()) {
      GTEST_SKIP() << "missing capability: an NVIDIA GPU, and LibTorch with CUDA";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, TensorArithmetic, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) { return info.param == at::kCUDA ? "cuda" : "cpu"; });

// What a rule has, by one arithmetic.
struct Ours {
  explicit Ours(int64_t count, at::DeviceType device = at::kCPU)
      : tensors{normal(1, count).to(device), at::empty({count}, device)},
        momentum(at::zeros({count}, device)),
        adam{at::zeros({count}, device), at::zeros({count}, device), at::zeros({count}, device)} {}
  FlatTensors tensors;
  at::Tensor momentum;
  AdamState adam;
};

TEST_P(TensorArithmetic, HasTheBitsOfTheKernelsOfSgd) {
  for (const int64_t count : {kCount, kMoreThanOnePart}) {
    for (const float momentum : {0.0F, 0.9F}) {
      for (const float keep : {1.0F, 0.3F}) {
        for (const float weight_decay : {0.0F, 1e-3F}) {
          for (const bool nesterov : {false, true}) {
            Ours host(count), other(count, GetParam());
            const int steps = count == kCount ? 100 : 2;
            for (int step = 0; step < steps; ++step) {
              host.tensors.gradients.copy_(normal(static_cast<uint64_t>(100 + step), count));
              other.tensors.gradients.copy_(host.tensors.gradients);
              const SgdCoefficients c{0.0321F, momentum, keep, weight_decay, nesterov, step == 0, 0.37F};
              kHostArithmetic.sgd(host.tensors, host.momentum, c);
              kTensorArithmetic.sgd(other.tensors, other.momentum, c);
            }
            EXPECT_TRUE(same_bits(other.tensors.parameters, host.tensors.parameters))
                << momentum << " " << keep << " " << weight_decay << " " << nesterov;
            EXPECT_TRUE(same_bits(other.momentum, host.momentum));
            EXPECT_TRUE(same_bits(other.tensors.gradients, host.tensors.gradients)) << "they are read alone";
          }
        }
        if (count != kCount) break;
      }
    }
  }
}

TEST_P(TensorArithmetic, HasTheBitsOfTheKernelsOfAdam) {
  for (const int64_t count : {kCount, kMoreThanOnePart}) {
    for (const float weight_decay : {0.0F, 1e-3F}) {
      for (const bool amsgrad : {false, true}) {
        Ours host(count), other(count, GetParam());
        for (Ours* one : {&host, &other}) {
          if (!amsgrad) one->adam.max_exp_avg_sq = at::Tensor();
        }
        const int steps = count == kCount ? 100 : 2;
        for (int step = 0; step < steps; ++step) {
          host.tensors.gradients.copy_(normal(static_cast<uint64_t>(100 + step), count));
          other.tensors.gradients.copy_(host.tensors.gradients);
          const auto correction = static_cast<float>(std::sqrt(1 - std::pow(0.999, step + 1)));
          const AdamCoefficients c{0.0123F, 0.9F, 0.1F, 0.999F, 0.001F, correction, 1e-8F, weight_decay, 0.37F};
          kHostArithmetic.adam(host.tensors, host.adam, c);
          kTensorArithmetic.adam(other.tensors, other.adam, c);
        }
        EXPECT_TRUE(same_bits(other.tensors.parameters, host.tensors.parameters)) << weight_decay << " " << amsgrad;
        EXPECT_TRUE(same_bits(other.adam.exp_avg, host.adam.exp_avg));
        EXPECT_TRUE(same_bits(other.adam.exp_avg_sq, host.adam.exp_avg_sq));
        if (amsgrad) {
          EXPECT_TRUE(same_bits(other.adam.max_exp_avg_sq, host.adam.max_exp_avg_sq));
        }
      }
    }
  }
}

TEST_P(TensorArithmetic, HasTheBitsOfTheKernelsOfAveraging) {
  for (const int64_t count : {kCount, kMoreThanOnePart}) {
    at::Tensor host = normal(1, count), other = host.clone().to(GetParam());
    for (int step = 2; step < (count == kCount ? 100 : 4); ++step) {
      const at::Tensor value = normal(static_cast<uint64_t>(step), count);
      kHostArithmetic.blend(host, value, 1.0F / static_cast<float>(step));
      kTensorArithmetic.blend(other, value.to(GetParam()), 1.0F / static_cast<float>(step));
    }
    EXPECT_TRUE(same_bits(other, host));
    at::Tensor weights = normal(9, count), other_weights = weights.clone().to(GetParam());
    kHostArithmetic.swap(host, weights);
    kTensorArithmetic.swap(other, other_weights);
    EXPECT_TRUE(same_bits(other, host));
    EXPECT_TRUE(same_bits(other_weights, weights));
    EXPECT_FALSE(same_bits(other_weights, host));
  }
}

// The order of additions is LibTorch's: the sum differs in its last bits.
TEST_P(TensorArithmetic, SumsTheSquaresOfAllButPadding) {
  // The first two without padding between them; the last longer than a part.
  const FlatLayout layout{.ranges = {{"a", {16}, 0, 16, true},
                                     {"b", {3}, 16, 3, true},
                                     {"mean", {4}, 0, 4, false},
                                     {"c", {kMoreThanOnePart}, 32, kMoreThanOnePart, true}},
                          .parameter_elements = 32 + kMoreThanOnePart};
  at::Tensor flat = normal(3, layout.parameter_elements);
  flat.narrow(0, 19, 13).fill_(1e9F);
  const double expected = kHostArithmetic.sum_of_squares(flat, layout);
  EXPECT_NEAR(expected, static_cast<double>(kMoreThanOnePart), 0.2 * expected);
  const auto sum_of = [&](const at::Tensor& values) {
    return kTensorArithmetic.sum_of_squares(values.to(GetParam()), layout);
  };
  EXPECT_NEAR(sum_of(flat), expected, 1e-13 * expected);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::nanf("")}) {
    for (const int64_t at : {int64_t{0}, int64_t{18}, 31 + kMoreThanOnePart}) {
      at::Tensor other = flat.clone();
      other[at].fill_(value);
      EXPECT_FALSE(std::isfinite(sum_of(other))) << value << " at " << at;
    }
  }
  flat.fill_(std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(sum_of(flat)));
}

}  // namespace
}  // namespace mlbench::optim
