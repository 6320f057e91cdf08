#include "mlbench/framework/onednn/products.h"

#include <ATen/ATen.h>

#include <array>
#include <type_traits>

#include "mlbench/framework/onednn/bfloat16.h"

namespace mlbench::framework::onednn_framework {

template <typename T>
void multiply(char transpose_a, char transpose_b, int64_t rows, int64_t columns, int64_t inner, const float* a,
              int64_t a_stride, const float* b, int64_t b_stride, bool add, float* c, int64_t c_stride) {
  const auto view = [](const float* values, int64_t height, int64_t width, int64_t stride, char transpose) {
    const std::array<int64_t, 2> strides = {transpose == 'T' ? 1 : stride, transpose == 'T' ? stride : 1};
    // from_blob takes a writable pointer; nothing writes to its factors.
    return at::from_blob(const_cast<float*>(values), {height, width}, strides, at::kFloat);
  };
  at::Tensor product = view(c, rows, columns, c_stride, 'N');
  const at::Tensor left = view(a, rows, inner, a_stride, transpose_a);
  const at::Tensor right = view(b, inner, columns, b_stride, transpose_b);
  if constexpr (std::is_same_v<T, BFloat16>) {
    const at::Tensor rounded = at::mm(left.to(at::kBFloat16), right.to(at::kBFloat16));
    if (add) {
      product.add_(rounded);
    } else {
      product.copy_(rounded);
    }
  } else if (add) {
    product.addmm_(left, right);
  } else {
    at::mm_out(product, left, right);
  }
}

template void multiply<float>(char, char, int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, bool,
                              float*, int64_t);
template void multiply<BFloat16>(char, char, int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t,
                                 bool, float*, int64_t);

}  // namespace mlbench::framework::onednn_framework
