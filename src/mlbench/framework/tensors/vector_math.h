#pragma once

// Functions without branches and calls, so that compilers turn loops over them into SIMD code. Results are float32,
// within 2 units in the last place. This holds for fast_exp where the result is a normal number; smaller results become
// 0 or nearly 0.

#include <bit>
#include <cstdint>

namespace mlbench::framework {

// Computes exp(x) as 2^n * exp(r) with |r| <= ln 2 / 2. The polynomial is that of Cephes' expf (Moshier).
inline float fast_exp(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float low = x < -87.3F ? -87.3F : x;
  const float bounded = low > 88.7F ? 88.7F : low;
  const float shifted = bounded * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = bounded - n * 0.693359375F + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float result = p * r * r + r + 1;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - 0x4B400000;
  // 2^n is applied in two factors, as 2^n alone may be larger than the largest number.
  const int32_t half = exponent >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((exponent - half + 127) << 23);
  // NaN stays NaN.
  return x != x ? x : result * first * second;
}

inline float fast_sigmoid(float x) { return 1 / (1 + fast_exp(-x)); }

// Near 0, tanh is an odd polynomial (that of Cephes' tanhf), which keeps the relative error small there.
inline float fast_tanh(float x) {
  const float square = x * x;
  float p = -5.70498872745e-3F;
  p = p * square + 2.06390887954e-2F;
  p = p * square - 5.37397155531e-2F;
  p = p * square + 1.33314422036e-1F;
  p = p * square - 3.33332819422e-1F;
  const float small = p * square * x + x;
  const float large = 1 - 2 / (fast_exp(2 * x) + 1);
  return x < 0.625F && x > -0.625F ? small : large;
}

}  // namespace mlbench::framework
