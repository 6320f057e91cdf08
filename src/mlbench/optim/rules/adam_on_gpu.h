#pragma once

// Adam's update (adam.h) in three kernels of the GPU, each operation rounded by itself: the bits of the other two ways
// of arithmetic.h. Without amsgrad. Tensors of one length, on one GPU.

#include <ATen/ATen.h>

#include "mlbench/optim/rules/arithmetic.h"

namespace mlbench::optim {

struct AdamPart {
  at::Tensor parameters, gradients, exp_avg, exp_avg_sq;
};
void adam_on_gpu(const AdamPart& part, const AdamCoefficients& coefficients);

}  // namespace mlbench::optim
