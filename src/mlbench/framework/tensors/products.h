#pragma once

// Products of float32 matrices, whose factors may be rounded to 16 bits before; sums and results are float32.
//
// On the host LibTorch's own of float32 are MKL's, which takes kernels of AVX2 on processors that are not Intel's and
// is slow where rows are few, and those of float16 are scalar code: with AVX-512 or AVX2 ours are taken. Those of
// bfloat16 are oneDNN's, and fast; theirs are left alone, but for a factor that serves many products where there is
// AVX512-BF16. docs/results/text-speed.md has both side by side.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace mlbench::framework {

// Memory of a 16-bit matrix that every step makes anew: kept from one to the next, so that no page of it is faulted in
// again. One matrix at a time.
class KeptMatrix {
 public:
  // Contiguous; what is in it does not count. Valid until the next call.
  at::Tensor of(at::IntArrayRef sizes, const at::TensorOptions& options);

 private:
  at::Tensor memory_;  // of the largest so far
};

// to = a b, or to += a b: [n, m], [n, k], [k, m], with neighbours along rows or, of a and b, along columns. `to`
// overlaps neither. `factors`: float32, bfloat16 or float16; a and b are float32, or prepared(). On the host on the
// calling thread's pool. `product`: for the result where LibTorch makes it in 16 bits.
void multiply(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, at::ScalarType factors = at::kFloat,
              KeptMatrix* product = nullptr);

// a b, float32.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType factors);

// A factor of several products: in bfloat16, rounded once for all of them, into `memory` if there is any.
at::Tensor prepared(const at::Tensor& factor, at::ScalarType factors, KeptMatrix* memory = nullptr);

// A factor as LibTorch multiplies it: in that type, but float16 on the host, which it would multiply in scalar code, as
// rounded float32.
at::Tensor rounded(const at::Tensor& factor, at::ScalarType type);

// A factor that stands on the right of many products with few rows: in the order in which they read it.
class RightFactor {
 public:
  explicit RightFactor(const at::Tensor& b, at::ScalarType factors = at::kFloat);  // [k, m]
  // to = a b, or to += a b.
  void multiply(at::Tensor& to, const at::Tensor& a, bool add) const;

 private:
  at::ScalarType factors_;
  at::Tensor plain_;   // [k, m], rounded: where there are no kernels
  at::Tensor panels_;  // else
  int64_t inner_ = 0, columns_ = 0;
};

// Whose products of such factors on the host these are: "AVX-512", "AVX2", or "LibTorch".
std::string product_kernels_name(at::ScalarType factors);

}  // namespace mlbench::framework
