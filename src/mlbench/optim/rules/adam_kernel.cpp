#include "mlbench/optim/rules/adam_kernel.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "mlbench/base/vector_clones.h"

namespace mlbench::optim {

void adam_update_reference(float* parameters, const float* gradients, const AdamMoments& moments, int64_t count,
                           const AdamCoefficients& c) {
  for (int64_t i = 0; i < count; ++i) {
    float d = c.gradient_scale * gradients[i];
    if (c.weight_decay != 0) d += c.weight_decay * parameters[i];
    float& m = moments.exp_avg[i];
    float& v = moments.exp_avg_sq[i];
    m = c.beta1 * m + c.new_share1 * d;
    v = c.beta2 * v + c.new_share2 * (d * d);
    float u = v;
    if (moments.max_exp_avg_sq != nullptr) {
      float& largest = moments.max_exp_avg_sq[i];
      if (largest < v) largest = v;
      u = largest;
    }
    parameters[i] = c.shrink * parameters[i] - c.step_size * (m / (std::sqrt(u) / c.correction2 + c.eps));
  }
}

namespace {

constexpr int64_t kGrain = 32768;

// This loop has no branches; `weight_decay` may be zero.
MLBENCH_VECTOR_CLONES void update_plain(float* __restrict p, const float* __restrict g, float* __restrict exp_avg,
                                        float* __restrict exp_avg_sq, int64_t count,
                                        const AdamCoefficients& coefficients) {
  const AdamCoefficients c = coefficients;
  for (int64_t i = 0; i < count; ++i) {
    const float d = c.gradient_scale * g[i] + c.weight_decay * p[i];
    const float m = c.beta1 * exp_avg[i] + c.new_share1 * d;
    const float v = c.beta2 * exp_avg_sq[i] + c.new_share2 * (d * d);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    p[i] = c.shrink * p[i] - c.step_size * (m / (std::sqrt(v) / c.correction2 + c.eps));
  }
}

MLBENCH_VECTOR_CLONES void update_amsgrad(float* __restrict p, const float* __restrict g, float* __restrict exp_avg,
                                          float* __restrict exp_avg_sq, float* __restrict max_exp_avg_sq, int64_t count,
                                          const AdamCoefficients& coefficients) {
  const AdamCoefficients c = coefficients;
  for (int64_t i = 0; i < count; ++i) {
    const float d = c.gradient_scale * g[i] + c.weight_decay * p[i];
    const float m = c.beta1 * exp_avg[i] + c.new_share1 * d;
    const float v = c.beta2 * exp_avg_sq[i] + c.new_share2 * (d * d);
    const float u = max_exp_avg_sq[i] < v ? v : max_exp_avg_sq[i];
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    max_exp_avg_sq[i] = u;
    p[i] = c.shrink * p[i] - c.step_size * (m / (std::sqrt(u) / c.correction2 + c.eps));
  }
}

}  // namespace

void adam_update(float* parameters, const float* gradients, const AdamMoments& moments, int64_t count,
                 const AdamCoefficients& c) {
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    float* p = parameters + begin;
    const float* g = gradients + begin;
    float* m = moments.exp_avg + begin;
    float* v = moments.exp_avg_sq + begin;
    if (moments.max_exp_avg_sq == nullptr) {
      update_plain(p, g, m, v, end - begin, c);
    } else {
      update_amsgrad(p, g, m, v, moments.max_exp_avg_sq + begin, end - begin, c);
    }
  });
}

}  // namespace mlbench::optim
