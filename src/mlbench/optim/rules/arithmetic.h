#pragma once

// The arithmetic of rules, clipping and averaging on flat float32 tensors, with a row for each kind of memory: this
// project's kernels on the host, LibTorch's operations elsewhere. Both round each operation separately, in the order of
// the *_kernel.h, so that both give the same bits. The exception is sum_of_squares, whose additions LibTorch may order
// in any way.

#include <ATen/ATen.h>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/separate_memory.h"
#include "mlbench/optim/flat_tensors.h"
#include "mlbench/optim/rules/adam_kernel.h"
#include "mlbench/optim/rules/sgd_kernel.h"

namespace mlbench::optim {

struct AdamState {
  at::Tensor exp_avg, exp_avg_sq;
  at::Tensor max_exp_avg_sq;  // undefined without amsgrad
};

struct Arithmetic {
  // `momentum` may be undefined where its coefficient is 0.
  void (*sgd)(FlatTensors& tensors, at::Tensor& momentum, const SgdCoefficients& coefficients);
  void (*adam)(FlatTensors& tensors, AdamState& state, const AdamCoefficients& coefficients);
  // The sum over the layout's trainable ranges, in float64. The sum is finite if and only if all these values are. With
  // a GPU, the host waits for it.
  double (*sum_of_squares)(const at::Tensor& flat, const FlatLayout& layout);
  void (*blend)(at::Tensor& average, const at::Tensor& value, float share);  // average += (value - average) * share
  void (*swap)(at::Tensor& one, at::Tensor& other);
};

extern const Arithmetic kHostArithmetic, kTensorArithmetic;

// The row for `memory`; null is the host's memory.
inline const Arithmetic& arithmetic_for(const SeparateMemory* memory) {
  return memory == nullptr ? kHostArithmetic : kTensorArithmetic;
}

}  // namespace mlbench::optim
