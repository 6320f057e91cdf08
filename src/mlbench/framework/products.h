#pragma once

// Products of float32 matrices in host memory.
//
// LibTorch's own are MKL's, which takes kernels of AVX2 on processors that are not Intel's, and reads a matrix anew for
// every product with it. With AVX-512 ours are taken: docs/results/text-speed.md has both side by side.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace mlbench::framework {

// to = a b, or to += a b: [n, m], [n, k], [k, m], with neighbours along rows or, of a and b, along columns. `to`
// overlaps neither. On the calling thread's pool.
void multiply(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add);

// A factor that stands on the right of many products with few rows: in the order in which they read it.
class RightFactor {
 public:
  explicit RightFactor(const at::Tensor& b);  // [k, m]
  // to = a b, or to += a b.
  void multiply(at::Tensor& to, const at::Tensor& a, bool add) const;

 private:
  at::Tensor plain_;  // where there are no kernels for this processor
  at::Tensor panels_;
  int64_t inner_ = 0, columns_ = 0;
};

// Whose products these are: "AVX-512", or "LibTorch".
std::string product_kernels_name();

}  // namespace mlbench::framework
