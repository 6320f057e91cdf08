#include "mlbench/optim/rules/sgd_kernel.h"

#include <ATen/Parallel.h>

#include "mlbench/base/vector_clones.h"

namespace mlbench::optim {

void sgd_update_reference(float* parameters, const float* gradients, float* buffer, int64_t count,
                          const SgdCoefficients& c) {
  for (int64_t i = 0; i < count; ++i) {
    float d = c.gradient_scale * gradients[i];
    if (c.weight_decay != 0) d += c.weight_decay * parameters[i];
    if (c.momentum != 0) {
      buffer[i] = c.first ? d : c.momentum * buffer[i] + c.keep * d;
      d = c.nesterov ? d + c.momentum * buffer[i] : buffer[i];
    }
    parameters[i] -= c.lr * d;
  }
}

namespace {

// The pass is bound by memory, so the kernels spend multiplications by zero and one instead of branches.
constexpr int64_t kGrain = 32768;

MLBENCH_VECTOR_CLONES void update_plain(float* __restrict p, const float* __restrict g, int64_t count, float lr,
                                        float scale, float weight_decay) {
  for (int64_t i = 0; i < count; ++i) p[i] -= lr * (scale * g[i] + weight_decay * p[i]);
}

MLBENCH_VECTOR_CLONES void update_momentum(float* __restrict p, const float* __restrict g, float* __restrict buffer,
                                           int64_t count, float lr, float scale, float weight_decay, float old_share,
                                           float new_share, float gradient_share, float buffer_share) {
  for (int64_t i = 0; i < count; ++i) {
    const float d = scale * g[i] + weight_decay * p[i];
    const float b = old_share * buffer[i] + new_share * d;
    buffer[i] = b;
    p[i] -= lr * (gradient_share * d + buffer_share * b);
  }
}

}  // namespace

void sgd_update(float* parameters, const float* gradients, float* buffer, int64_t count, const SgdCoefficients& c) {
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    float* p = parameters + begin;
    const float* g = gradients + begin;
    if (c.momentum == 0) {
      update_plain(p, g, end - begin, c.lr, c.gradient_scale, c.weight_decay);
    } else {
      update_momentum(p, g, buffer + begin, end - begin, c.lr, c.gradient_scale, c.weight_decay,
                      c.first ? 0 : c.momentum, c.first ? 1 : c.keep, c.nesterov ? 1 : 0, c.nesterov ? c.momentum : 1);
    }
  });
}

}  // namespace mlbench::optim
