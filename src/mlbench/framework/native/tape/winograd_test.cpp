// The kernels of winograd_body.inc beside plain sums in float64. The rule per tensor: the norm of the error is at most
// 16 times that of plain sums in float32, and at most 1e-5 of the tensor's norm.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/framework/native/tape/elements.h"
#include "mlbench/framework/native/tape/memory_plan.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {
namespace {

template <typename T>
using Values = std::vector<T>;

Values<float> normal_values(int64_t count, uint64_t key, double scale = 1) {
  RandomSequence random(key);
  Values<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return values;
}

// What one convolution computes, forward and back, as plain {samples, channels, height, width} and {out, in, 3, 3}.
template <typename T>
struct Computed {
  Values<T> y, dx, dw;
};

// Sums in T, in the order of the loops.
template <typename T>
Computed<T> plain_sums(const Values<float>& x, const Values<float>& w, const Values<float>& dy,
                       const WinogradShape& s) {
  Computed<T> computed{Values<T>(dy.size()), Values<T>(x.size()), Values<T>(w.size())};
  const int64_t pixels = s.height * s.width;
  for (int64_t n = 0; n < s.samples; ++n) {
    for (int64_t o = 0; o < s.out; ++o) {
      for (int64_t i = 0; i < s.in; ++i) {
        for (int64_t k = 0; k < 9; ++k) {
          const int64_t down = k / 3 - 1, right = k % 3 - 1, at_w = (o * s.in + i) * 9 + k;
          const int64_t first = std::max<int64_t>(0, -right), last = std::min(s.width, s.width - right);
          const T factor = w[static_cast<size_t>(at_w)];
          T& sum = computed.dw[static_cast<size_t>(at_w)];
          for (int64_t row = std::max<int64_t>(0, -down); row < std::min(s.height, s.height - down); ++row) {
            const int64_t at_y = (n * s.out + o) * pixels + row * s.width;
            const int64_t at_x = (n * s.in + i) * pixels + (row + down) * s.width + right;
            for (int64_t column = first; column < last; ++column) {
              const auto to = static_cast<size_t>(at_y + column), from = static_cast<size_t>(at_x + column);
              computed.y[to] += factor * x[from];
              computed.dx[from] += factor * dy[to];
              sum += static_cast<T>(x[from]) * dy[to];
            }
          }
        }
      }
    }
  }
  return computed;
}

// Memory as the network's: blocked, and aligned to 64 bytes.
class Aligned {
 public:
  explicit Aligned(int64_t count) : memory_(count * static_cast<int64_t>(sizeof(float))), count_(count) {}
  float* data() const { return reinterpret_cast<float*>(memory_.get()); }
  int64_t size() const { return count_; }

 private:
  HugePages memory_;
  int64_t count_;
};

Aligned to_blocked(const Values<float>& plain, int64_t channels, int64_t pixels, int lanes) {
  Aligned blocked(static_cast<int64_t>(plain.size()));
  const Blocked at{pixels, lanes};
  for (int64_t i = 0; i < blocked.size(); ++i) {
    const int64_t sample = i / (channels * pixels);
    blocked.data()[sample * channels * pixels + at(i / pixels % channels, i % pixels)] = plain[static_cast<size_t>(i)];
  }
  return blocked;
}

Values<float> to_plain(const Aligned& blocked, int64_t channels, int64_t pixels, int lanes) {
  Values<float> plain(static_cast<size_t>(blocked.size()));
  const Blocked at{pixels, lanes};
  for (int64_t i = 0; i < blocked.size(); ++i) {
    const int64_t sample = i / (channels * pixels);
    plain[static_cast<size_t>(i)] = blocked.data()[sample * channels * pixels + at(i / pixels % channels, i % pixels)];
  }
  return plain;
}

struct WinogradCase {
  InstructionSet set;
  int lanes;
  WinogradShape shape;
  std::string name() const {
    return std::string(name_of(set)) + ", " + std::to_string(lanes) + " lanes, " + std::to_string(shape.samples) +
           " x " + std::to_string(shape.in) + " to " + std::to_string(shape.out) + " @ " +
           std::to_string(shape.height) + " x " + std::to_string(shape.width);
  }
};

// All instruction sets, whole and cut tiles, several blocks of tiles, and odd numbers of blocks of channels.
std::vector<WinogradCase> winograd_cases() {
  std::vector<WinogradCase> all;
  for (const InstructionSet set : instruction_sets()) {
    for (const int lanes : {8, 16}) {
      for (const WinogradShape& shape :
           {WinogradShape{2, 32, 32, 16, 16}, WinogradShape{5, 8, 8, 64, 64}, WinogradShape{3, 7, 9, 32, 48},
            WinogradShape{2, 1, 1, 16, 32}, WinogradShape{1, 3, 261, 16, 16}, WinogradShape{1, 14, 14, 128, 128}}) {
        all.push_back({set, lanes, shape});
      }
    }
  }
  return all;
}

// One convolution of one case, computed by its kernels.
class WinogradRun {
 public:
  WinogradRun(const WinogradCase& test, const Values<float>& w)
      : shape_(test.shape),
        kernels_(winograd_kernels(test.set, test.lanes)),
        lanes_(test.lanes),
        packed_(kernels_.points * shape_.in * shape_.out),
        mirrored_(packed_.size()),
        sums_(packed_.size()) {
    const int64_t all = shape_.in * shape_.out / lanes_, half = all / 2;
    for (const auto& [first, last] : {std::pair(int64_t{0}, half), std::pair(half, all)}) {
      kernels_.pack_weight(w.data(), shape_.out, shape_.in, false, first, last, packed_.data());
      kernels_.pack_weight(w.data(), shape_.out, shape_.in, true, first, last, mirrored_.data());
    }
  }

  // Convolves `samples` samples at a time.
  Values<float> forward(const Values<float>& x, int64_t samples, const float* bias, const Values<float>* before) {
    return convolve(x, shape_, samples, packed_, bias, before);
  }
  Values<float> input_gradient(const Values<float>& dy) {
    WinogradShape back = shape_;
    std::swap(back.in, back.out);
    return convolve(dy, back, back.samples, mirrored_, nullptr, nullptr);
  }
  void add_weight_sums(const Values<float>& x, const Values<float>& dy) {
    const Aligned from = to_blocked(x, shape_.in, pixels(), lanes_), by = to_blocked(dy, shape_.out, pixels(), lanes_);
    const Aligned scratch(kernels_.scratch_elements(shape_));
    kernels_.weight_sums(from.data(), by.data(), shape_, scratch.data(), sums_.data());
  }
  // The gradient of `parts` times what was summed.
  Values<float> weight_gradient(int parts, bool adds, float before) {
    Values<float> gradient(static_cast<size_t>(9 * shape_.in * shape_.out), before);
    const std::vector<const float*> sums(static_cast<size_t>(parts), sums_.data());
    const int64_t all = shape_.in * shape_.out / lanes_, half = all / 2;
    for (const auto& [first, last] : {std::pair(int64_t{0}, half), std::pair(half, all)}) {
      kernels_.unpack_gradient(sums.data(), parts, shape_.out, shape_.in, first, last, adds, gradient.data());
    }
    return gradient;
  }

 private:
  int64_t pixels() const { return shape_.height * shape_.width; }

  Values<float> convolve(const Values<float>& x, const WinogradShape& s, int64_t samples, const Aligned& packed,
                         const float* bias, const Values<float>* before) {
    const int64_t out = s.samples * s.out * pixels();
    const Aligned from = to_blocked(x, s.in, pixels(), lanes_);
    const Values<float> garbage(static_cast<size_t>(out), 1e9F);
    const Aligned y = to_blocked(before != nullptr ? *before : garbage, s.out, pixels(), lanes_);
    for (int64_t first = 0; first < s.samples; first += samples) {
      WinogradShape part = s;
      part.samples = std::min(samples, s.samples - first);
      const Aligned scratch(kernels_.scratch_elements(part));
      kernels_.convolve(from.data() + first * s.in * pixels(), part, packed.data(), bias, before != nullptr,
                        scratch.data(), y.data() + first * s.out * pixels());
    }
    return to_plain(y, s.out, pixels(), lanes_);
  }

  WinogradShape shape_;
  const WinogradKernels& kernels_;
  int lanes_;
  Aligned packed_, mirrored_, sums_;
};

template <typename T>
double distance(const Values<T>& a, const Values<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

void expect_exact(const Values<float>& ours, const Values<float>& plain, const Values<double>& exact,
                  const std::string& what) {
  const double norm = distance(Values<double>(exact.size()), exact);
  ASSERT_GT(norm, 0) << what;
  EXPECT_LE(distance(ours, exact), 16 * distance(plain, exact)) << what;
  EXPECT_LE(distance(ours, exact), 1e-5 * norm) << what;
}

class WinogradKernelsTest : public testing::TestWithParam<WinogradCase> {
 protected:
  const WinogradCase& test_ = GetParam();
  const WinogradShape& s_ = test_.shape;
  int64_t pixels_ = s_.height * s_.width;
  // Inputs are what ReLU lets through.
  Values<float> x_ = [this] {
    Values<float> x = normal_values(s_.samples * s_.in * pixels_, 1);
    for (float& value : x) value = std::max(0.0F, value);
    return x;
  }();
  Values<float> w_ = normal_values(9 * s_.in * s_.out, 2, 0.1), dy_ = normal_values(s_.samples * s_.out * pixels_, 3);
};

TEST_P(WinogradKernelsTest, ForwardAndBackwardKeepTheErrorRule) {
  const Computed<double> exact = plain_sums<double>(x_, w_, dy_, s_);
  const Computed<float> plain = plain_sums<float>(x_, w_, dy_, s_);
  WinogradRun run(test_, w_);
  expect_exact(run.forward(x_, s_.samples, nullptr, nullptr), plain.y, exact.y, "forward");
  expect_exact(run.input_gradient(dy_), plain.dx, exact.dx, "gradient of the input");
  run.add_weight_sums(x_, dy_);
  expect_exact(run.weight_gradient(1, false, 1e9F), plain.dw, exact.dw, "gradient of the weight");
}

TEST_P(WinogradKernelsTest, SamplesOneByOneGiveTheSameBits) {
  WinogradRun run(test_, w_);
  EXPECT_EQ(run.forward(x_, s_.samples, nullptr, nullptr), run.forward(x_, 1, nullptr, nullptr));
}

TEST_P(WinogradKernelsTest, AddsBiasAndWhatWasThere) {
  WinogradRun run(test_, w_);
  const Values<float> y = run.forward(x_, s_.samples, nullptr, nullptr), bias = normal_values(s_.out, 4);
  const Values<float> sum = run.forward(x_, s_.samples, bias.data(), &dy_);
  for (size_t i = 0; i < y.size(); ++i) {
    const float of_channel = bias[i / static_cast<size_t>(pixels_) % bias.size()];
    ASSERT_EQ(sum[i], (y[i] + of_channel) + dy_[i]) << i;
  }
}

TEST_P(WinogradKernelsTest, AddsUpPartsAndCallsAndAnEarlierGradient) {
  WinogradRun run(test_, w_);
  run.add_weight_sums(x_, dy_);
  Values<double> three;
  for (const float once : run.weight_gradient(1, false, 0)) three.push_back(3.0 * once);
  const double norm = distance(Values<double>(three.size()), three);
  EXPECT_LE(distance(run.weight_gradient(3, false, 1e9F), three), 1e-6 * norm) << "three threads";
  Values<double> more;
  for (const double value : three) more.push_back(value + 2);
  EXPECT_LE(distance(run.weight_gradient(3, true, 2), more), 1e-6 * norm) << "an earlier micro-batch";
  run.add_weight_sums(x_, dy_);
  run.add_weight_sums(x_, dy_);
  EXPECT_LE(distance(run.weight_gradient(1, false, 1e9F), three), 2e-6 * norm) << "three calls";
}

INSTANTIATE_TEST_SUITE_P(Cases, WinogradKernelsTest, testing::ValuesIn(winograd_cases()), [](const auto& info) {
  std::string name = info.param.name();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace mlbench::framework::native_framework
