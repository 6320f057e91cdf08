#pragma once

#include <cstdint>

#include "mlbench/framework/onednn/vector_kernels.h"

namespace mlbench::framework::onednn_framework {

// c [rows, columns] = (or, with `add`, +=) a [rows, inner] b [inner, columns], each row-major with a stride from row to
// row; 'T': what is stored is the factor's transpose. T, float or BFloat16, is what factors and product are rounded to,
// the sums are in float32. LibTorch's product: oneDNN 2.6 sets its own up through std::call_once on symbols that
// LibTorch, with a newer oneDNN inside, exports under the same names, and whichever is loaded second is broken.
template <typename T>
void multiply(char transpose_a, char transpose_b, int64_t rows, int64_t columns, int64_t inner, const float* a,
              int64_t a_stride, const float* b, int64_t b_stride, bool add, float* c, int64_t c_stride);

}  // namespace mlbench::framework::onednn_framework
