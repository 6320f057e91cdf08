#pragma once

// The batch_norm2d layer: this project's kernels where they take its shape, else LibTorch's.

#include <ATen/ATen.h>

#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/torch/batch_norm.h"
#include "mlbench/framework/torch/operations.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::torch_framework {

// A batch_norm2d layer, and what may follow it in the same pass.
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

  // act(norm(input) + addend); `addend` may be undefined.
  at::Tensor operator()(const at::Tensor& input, const at::Tensor& addend, bool relu, const Pass& pass) const;

 private:
  NormParameters parameters(const at::Tensor& used_mean, const at::Tensor& inv_std) const;

  void statistics(const at::Tensor& x, const NormShape& shape, bool of_batch, const at::Tensor& used_mean,
                  const at::Tensor& inv_std) const;

  // LibTorch's own, for shapes and devices that the kernels do not take.
  at::Tensor plain(const at::Tensor& x, const at::Tensor& addend, bool relu, const Pass& pass) const;
};

}  // namespace mlbench::framework::torch_framework
