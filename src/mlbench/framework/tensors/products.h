#pragma once

// Products of float32 matrices, whose factors may be rounded to 16 bits first. Sums and results are float32.
//
// On the host, LibTorch multiplies float32 by MKL, which takes AVX2 kernels on processors that are not Intel's and is
// slow where rows are few; LibTorch's products of float16 are scalar code. With AVX-512 or AVX2 this project's own
// kernels (product_kernels.h) replace both. LibTorch's products of bfloat16 are oneDNN's, which are fast, so they stay;
// only RightFactor takes the own kernels there, where the processor has AVX512-BF16. docs/results/text-speed.md
// compares both.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace mlbench::framework {

// Memory for a 16-bit matrix that every step makes anew. The memory is kept from one step to the next, so that its
// pages are not faulted in again. There is room for one matrix at a time.
class KeptMatrix {
 public:
  // A contiguous tensor of these sizes with undefined values, valid until the next call.
  at::Tensor of(at::IntArrayRef sizes, const at::TensorOptions& options);

 private:
  at::Tensor memory_;  // as large as the largest matrix so far
};

// Computes to = a b, or with `add` to += a b, where `to` is [n, m], `a` is [n, k] and `b` is [k, m]. Neighbouring
// values of a row must be next to each other in memory; for `a` and `b`, those of a column may be instead. `to` must
// overlap neither factor. `factors` is the type to which factors are rounded: float32, bfloat16 or float16. `a` and `b`
// are float32, or prepared(). On the host, the calling thread's pool computes. Where LibTorch computes the result in 16
// bits, that result is made in `product` (may be null).
void multiply(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, at::ScalarType factors = at::kFloat,
              KeptMatrix* product = nullptr);

// The product a b as a new float32 tensor.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType factors);

// Prepares a factor of several products: with bfloat16, the factor is rounded once for all of them, into `memory`
// unless that is null. With other types this is the factor itself.
at::Tensor prepared(const at::Tensor& factor, at::ScalarType factors, KeptMatrix* memory = nullptr);

// The factor as LibTorch should multiply it: rounded to `type`. On the host, a factor rounded to float16 is returned as
// float32, since LibTorch's products of float16 are scalar code.
at::Tensor rounded(const at::Tensor& factor, at::ScalarType type);

// The right factor of many products with few rows, packed in the order in which these products read it.
class RightFactor {
 public:
  explicit RightFactor(const at::Tensor& b, at::ScalarType factors = at::kFloat);  // [k, m]
  // Computes to = a b, or with `add` to += a b.
  void multiply(at::Tensor& to, const at::Tensor& a, bool add) const;

 private:
  at::ScalarType factors_;
  at::Tensor plain_;   // [k, m], rounded; used where there are no kernels
  at::Tensor panels_;  // used otherwise
  int64_t inner_ = 0, columns_ = 0;
};

// The name of the kernels that multiply() takes for such factors on the host: "AVX-512", "AVX2", or "LibTorch".
std::string product_kernels_name(at::ScalarType factors);

}  // namespace mlbench::framework
