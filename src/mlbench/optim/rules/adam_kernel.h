#pragma once

// The arithmetic of AdamRule on plain arrays of float32, one element at a time, in the order written in adam.h. Each
// operation is rounded separately: the same bits on every machine and for every number of threads.

#include <cstdint>

namespace mlbench::optim {

struct AdamCoefficients {
  float step_size = 0;  // lr / (1 - beta1^t)
  float beta1 = 0;
  float new_share1 = 1;  // 1 - beta1
  float beta2 = 0;
  float new_share2 = 1;   // 1 - beta2
  float correction2 = 1;  // sqrt(1 - beta2^t)
  float eps = 0;
  float weight_decay = 0;
  float gradient_scale = 1;
  float shrink = 1;  // what the parameter is multiplied by before the step: decoupled weight decay
};

struct AdamMoments {
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  float* max_exp_avg_sq = nullptr;  // null without amsgrad
};

void adam_update_reference(float* parameters, const float* gradients, const AdamMoments& moments, int64_t count,
                           const AdamCoefficients& coefficients);
// Gives the bits of the reference, vectorised and on all threads of the process's pool.
void adam_update(float* parameters, const float* gradients, const AdamMoments& moments, int64_t count,
                 const AdamCoefficients& coefficients);

}  // namespace mlbench::optim
