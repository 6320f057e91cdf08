#pragma once

// Adam's update (adam.h), without amsgrad, in three kernels of the GPU. Each operation is rounded separately, so the
// bits are those of both rows of arithmetic.h. The tensors have one length, on one GPU.

#include <ATen/ATen.h>

#include "mlbench/optim/rules/arithmetic.h"

namespace mlbench::optim {

struct AdamPart {
  at::Tensor parameters, gradients, exp_avg, exp_avg_sq;
};
void adam_on_gpu(const AdamPart& part, const AdamCoefficients& coefficients);

}  // namespace mlbench::optim
