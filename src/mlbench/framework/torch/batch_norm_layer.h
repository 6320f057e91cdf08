#pragma once

// The batch_norm2d layer, which uses this project's kernels (batch_norm.h) where these take its shape, and LibTorch's
// otherwise.

#include <ATen/ATen.h>

#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/torch/batch_norm.h"
#include "mlbench/framework/torch/operations.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::torch_framework {

// A batch_norm2d layer, together with a residual sum and a ReLU that may follow it.
struct BatchNorm {
  Parameter weight, bias, mean, variance;
  double eps = 0, momentum = 0;
  bool frozen = false, on_host = true;
  GradientBuffer* gradients = nullptr;

  BatchNorm(const models::LayerSpec& layer, const BuildContext& context)
      : weight(context.parameter(layer.name + ".weight")),
        bias(context.parameter(layer.name + ".bias")),
        mean(context.parameter(layer.name + ".running_mean")),
        variance(context.parameter(layer.name + ".running_var")),
        eps(layer.options.at("eps").get<double>()),
        momentum(layer.options.at("momentum").get<double>()),
        frozen(context.frozen_batch_norm),
        on_host(context.on_host),
        gradients(&context.gradients) {}

  // Computes act(norm(input) + addend), where act is ReLU with `relu`. `addend` may be undefined. In training, updates
  // the running statistics unless they are frozen.
  at::Tensor operator()(const at::Tensor& input, const at::Tensor& addend, bool relu, const Pass& pass) const;

 private:
  NormParameters parameters(const at::Tensor& used_mean, const at::Tensor& inv_std) const;

  void statistics(const at::Tensor& x, const NormShape& shape, bool of_batch, const at::Tensor& used_mean,
                  const at::Tensor& inv_std) const;

  // Computes the same by LibTorch's kernels, for shapes and devices that the own kernels do not take.
  at::Tensor plain(const at::Tensor& x, const at::Tensor& addend, bool relu, const Pass& pass) const;
};

}  // namespace mlbench::framework::torch_framework
