#pragma once

// The arithmetic of SgdRule on plain arrays of float32, one element at a time, in the order written in sgd.h. Each
// operation is rounded separately: the same bits on every machine and for every number of threads.

#include <cstdint>

namespace mlbench::optim {

struct SgdCoefficients {
  float lr = 0;
  float momentum = 0;
  float keep = 1;  // 1 - dampening
  float weight_decay = 0;
  bool nesterov = false;
  bool first = true;  // the momentum buffer starts as the gradient
  float gradient_scale = 1;
};

// `buffer` may be null when momentum is 0.
void sgd_update_reference(float* parameters, const float* gradients, float* buffer, int64_t count,
                          const SgdCoefficients& coefficients);
// Gives the bits of the reference, vectorised and on all threads of the process's pool.
void sgd_update(float* parameters, const float* gradients, float* buffer, int64_t count,
                const SgdCoefficients& coefficients);

}  // namespace mlbench::optim
