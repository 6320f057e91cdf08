#pragma once

// Products of float32 matrices in the type in which a model multiplies (framework/tensors/products.h).

#include <ATen/ATen.h>

#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework::torch_framework {

// Into `to`, or on top of it. `product`: as of multiply().
void store_product(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, at::ScalarType type,
                   KeptMatrix* product = nullptr);

// x W' of x [..., k] and W [m, k]; autograd differentiates it.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, at::ScalarType type);

}  // namespace mlbench::framework::torch_framework
