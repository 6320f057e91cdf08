#pragma once

// The last linear layer and the cross entropy of its logits as one operation, in chunks of rows: the logits of a whole
// batch never exist at once. A training pass computes the gradients right with the loss, while a chunk's logits are
// there, and the backward pass only scales them. Positions whose target is ignored are left out from the first product
// on.

#include <ATen/ATen.h>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/cross_entropy_kernel.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework {

struct TokenLossOptions {
  models::LossSpec loss;
  Parameter weight, bias;                    // of the linear layer; without a bias its value is undefined
  at::ScalarType product_type = at::kFloat;  // in which it multiplies
  // The tensors are in the host's memory, so that this project's own kernels can read them; else LibTorch's are taken.
  bool on_host = true;
};

class TokenLoss {
 public:
  // The gradient buffer outlives it.
  TokenLoss(const TokenLossOptions& options, GradientBuffer& gradients);

  // `hidden` [..., in], `targets` the extents before the last. With `training` makes the gradients, too.
  MetricSums forward(const at::Tensor& hidden, const at::Tensor& targets, bool training);
  // Gradients of `scale` times the sum of losses: of the layer's parameters into their slots; that of `hidden`.
  at::Tensor backward(double scale);

  // Of few positions: [..., classes].
  at::Tensor logits(const at::Tensor& hidden) const;

 private:
  void forward_chunk(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& targets, int64_t first,
                     bool training, CrossEntropySums& sums);

  models::LossSpec loss_;
  Parameter weight_, bias_;
  bool biased_ = false, on_host_ = true;
  at::ScalarType type_;
  GradientBuffer& gradients_;

  std::vector<int64_t> shape_;             // of hidden
  at::Tensor kept_;                        // rows that count, or undefined: all of them
  at::Tensor buffer_;                      // logits of one chunk
  at::Tensor d_rows_, d_weight_, d_bias_;  // of the sum of losses
  // Of products in 16 bits: the weight; a chunk's logits, then their gradient; a gradient before it is float32.
  KeptMatrix rounded_weight_, rounded_logits_, rounded_gradient_;
};

}  // namespace mlbench::framework
