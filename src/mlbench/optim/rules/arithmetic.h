#pragma once

// The arithmetic of rules, clipping and averaging on flat float32 tensors, a row for each kind of memory: on the host
// this project's kernels, elsewhere LibTorch's operations. In both, each operation is rounded by itself, in the order
// that the *_kernel.h give, so that both have the same bits; but for sum_of_squares, whose additions LibTorch orders as
// it likes.

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
  // Of the layout's trainable ranges, in float64: finite if and only if all of these values are. On a GPU the host
  // waits for it.
  double (*sum_of_squares)(const at::Tensor& flat, const FlatLayout& layout);
  void (*blend)(at::Tensor& average, const at::Tensor& value, float share);  // average += (value - average) * share
  void (*swap)(at::Tensor& one, at::Tensor& other);
};

extern const Arithmetic kHostArithmetic, kTensorArithmetic;

// Null: of the host's memory.
inline const Arithmetic& arithmetic_for(const SeparateMemory* memory) {
  return memory == nullptr ? kHostArithmetic : kTensorArithmetic;
}

}  // namespace mlbench::optim
