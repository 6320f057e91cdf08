#include "mlbench/framework/onednn/products.h"

#include <ATen/ATen.h>

#include <algorithm>
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

template <typename T, typename Source>
void pack_panels(char transpose, int64_t inner, int64_t columns, const Source* b, int64_t b_stride, T* panels) {
  for (int64_t first = 0; first < columns; first += kPanel, panels += kPanel * padded<T>(inner)) {
    const int64_t count = std::min(kPanel, columns - first);
    if (count < kPanel || inner < padded<T>(inner)) std::fill_n(panels, kPanel * padded<T>(inner), T());
    for (int64_t k = 0; k < inner; ++k) {
      T* to = panels + k / kTogether<T> * kTogether<T> * kPanel + k % kTogether<T>;
      for (int64_t i = 0; i < count; ++i) {
        const Source value = transpose == 'T' ? b[(first + i) * b_stride + k] : b[k * b_stride + first + i];
        to[i * kTogether<T>] = rounded_to<T>(value_of(value));
      }
    }
  }
}

template void multiply<float>(char, char, int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, bool,
                              float*, int64_t);
template void multiply<BFloat16>(char, char, int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t,
                                 bool, float*, int64_t);
template void pack_panels<float, float>(char, int64_t, int64_t, const float*, int64_t, float*);
template void pack_panels<BFloat16, float>(char, int64_t, int64_t, const float*, int64_t, BFloat16*);
template void pack_panels<BFloat16, BFloat16>(char, int64_t, int64_t, const BFloat16*, int64_t, BFloat16*);

}  // namespace mlbench::framework::onednn_framework
