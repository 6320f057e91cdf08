#pragma once

#include <cstdint>

namespace mlbench::framework::onednn_framework {

// c [rows, columns] = a [rows, inner] b [inner, columns] + beta c, each row-major with a stride from row to row; 'T':
// what is stored is the factor's transpose. LibTorch's product: oneDNN 2.6 sets its own up through std::call_once on
// symbols that LibTorch, with a newer oneDNN inside, exports under the same names, and whichever is loaded second is
// broken.
void multiply(char transpose_a, char transpose_b, int64_t rows, int64_t columns, int64_t inner, const float* a,
              int64_t a_stride, const float* b, int64_t b_stride, float beta, float* c, int64_t c_stride);

// b [inner, columns] as panels (lane_kernels.h), for RowKernels::times_panels; `transpose` as above.
void pack_panels(char transpose, int64_t inner, int64_t columns, const float* b, int64_t b_stride, float* panels);

}  // namespace mlbench::framework::onednn_framework
