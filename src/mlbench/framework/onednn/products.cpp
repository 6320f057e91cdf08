#include "mlbench/framework/onednn/products.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "mlbench/framework/onednn/lane_kernels.h"

namespace mlbench::framework::onednn_framework {

void multiply(char transpose_a, char transpose_b, int64_t rows, int64_t columns, int64_t inner, const float* a,
              int64_t a_stride, const float* b, int64_t b_stride, float beta, float* c, int64_t c_stride) {
  const auto view = [](const float* values, int64_t height, int64_t width, int64_t stride, char transpose) {
    const std::array<int64_t, 2> strides = {transpose == 'T' ? 1 : stride, transpose == 'T' ? stride : 1};
    // from_blob takes a writable pointer; nothing writes to its factors.
    return at::from_blob(const_cast<float*>(values), {height, width}, strides, at::kFloat);
  };
  at::Tensor product = view(c, rows, columns, c_stride, 'N');
  const at::Tensor left = view(a, rows, inner, a_stride, transpose_a);
  const at::Tensor right = view(b, inner, columns, b_stride, transpose_b);
  if (beta != 0) {
    product.addmm_(left, right, beta);
  } else {
    at::mm_out(product, left, right);
  }
}

void pack_panels(char transpose, int64_t inner, int64_t columns, const float* b, int64_t b_stride, float* panels) {
  for (int64_t first = 0; first < columns; first += kPanel) {
    const int64_t count = std::min(kPanel, columns - first);
    for (int64_t k = 0; k < inner; ++k, panels += kPanel) {
      for (int64_t i = 0; i < count; ++i)
        panels[i] = transpose == 'T' ? b[(first + i) * b_stride + k] : b[k * b_stride + first + i];
      std::fill(panels + count, panels + kPanel, 0.0F);
    }
  }
}

}  // namespace mlbench::framework::onednn_framework
