#pragma once

// The last linear layer and the cross entropy of its logits as one operation on chunks of rows, so that the logits of a
// whole batch never exist at once. A training pass computes the gradients together with the loss, while a chunk's
// logits exist; the backward pass only scales these gradients. Positions whose target is ignored are left out,
// beginning with the first product.

#include <ATen/ATen.h>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/cross_entropy_kernel.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework {

struct TokenLossOptions {
  models::LossSpec loss;
  Parameter weight, bias;                    // of the linear layer; bias.value is undefined where there is no bias
  at::ScalarType product_type = at::kFloat;  // the type to which factors of products are rounded
  // Whether the tensors are in the host's memory, where this project's own kernels can read them; otherwise LibTorch
  // computes.
  bool on_host = true;
};

class TokenLoss {
 public:
  // `gradients` must outlive the object.
  TokenLoss(const TokenLossOptions& options, GradientBuffer& gradients);

  // Computes the sums of losses. `hidden` is [..., in], and `targets` has the same extents but the last. With
  // `training`, computes the gradients for backward(), too.
  MetricSums forward(const at::Tensor& hidden, const at::Tensor& targets, bool training);
  // Computes the gradients of `scale` times the sum of losses: writes those of the layer's parameters into their slots,
  // and returns that of `hidden`. Precondition: the last call was forward() with `training`.
  at::Tensor backward(double scale);

  // The logits [..., classes] of all positions at once; meant for few positions.
  at::Tensor logits(const at::Tensor& hidden) const;

 private:
  void forward_chunk(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& targets, int64_t first,
                     bool training, CrossEntropySums& sums);

  models::LossSpec loss_;
  Parameter weight_, bias_;
  bool biased_ = false, on_host_ = true;
  at::ScalarType type_;
  GradientBuffer& gradients_;

  std::vector<int64_t> shape_;             // sizes of `hidden`
  at::Tensor kept_;                        // indices of the rows that count; undefined: all of them
  at::Tensor buffer_;                      // logits of one chunk
  at::Tensor d_rows_, d_weight_, d_bias_;  // gradients of the sum of losses
  // Memory for products in 16 bits: of the weight; of a chunk's logits and then their gradient; of a gradient before it
  // becomes float32.
  KeptMatrix rounded_weight_, rounded_logits_, rounded_gradient_;
};

}  // namespace mlbench::framework
