#pragma once

// Products of matrices in the type of their factors, float32 or 16 bits, with float32 results.

#include <ATen/ATen.h>

namespace mlbench::framework::torch_framework {

// a b of [n, k] and [k, m], both of one type.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);
// Into `to`, or on top of it.
void store_product(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add);

// x W' of x [..., k] and W [m, k] in their type; autograd differentiates it.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight);

}  // namespace mlbench::framework::torch_framework
