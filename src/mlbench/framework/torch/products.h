#pragma once

// Products of float32 matrices whose factors are rounded to the model's type for products
// (framework/tensors/products.h).

#include <ATen/ATen.h>

#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework::torch_framework {

// Computes to = a b, or with `add` to += a b. `product` is that of multiply(), which this calls.
void store_product(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, at::ScalarType type,
                   KeptMatrix* product = nullptr);

// The product x W' of `x`, [..., k], and `weight` W, [m, k]. Autograd differentiates it.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, at::ScalarType type);

}  // namespace mlbench::framework::torch_framework
