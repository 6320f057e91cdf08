#pragma once

// Cross entropy of rows of logits, with label smoothing e over V classes (models::LossSpec). Per row, with m the
// largest logit and l = m + log(sum of exp(z - m)):
//   nll = l - z[target],   loss = (1 - e) nll + e (l - mean of z)
//   gradient[j] = exp(z[j] - l) - (1 - e) [j = target] - e / V
// The kernel reads host memory. Its reference by LibTorch runs on any device.

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework {

struct CrossEntropySums {
  double loss = 0, nll = 0;
};

// Sums loss and nll over the rows. `logits` is [rows, V] float32, contiguous; `targets` is int64 [rows]. With
// `gradient`, the gradient of the sum of losses overwrites the logits. The sums do not depend on the number of threads.
CrossEntropySums cross_entropy_rows(at::Tensor logits, const at::Tensor& targets, double smoothing, bool gradient);
CrossEntropySums cross_entropy_rows_reference(at::Tensor logits, const at::Tensor& targets, double smoothing,
                                              bool gradient);

}  // namespace mlbench::framework
