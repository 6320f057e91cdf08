#pragma once

// SIMD kernels on blocked activations (oneDNN's nChw16c and nChw8c). A sample is {blocks of channels, height, width,
// lanes}, where the lanes of a vector are neighbouring channels. A *plane* is one block of one sample: `rows` (= height
// x width) vectors of `lanes` channels. Values per channel (mean, scale, sums) are [lanes], too. Lanes after the last
// channel are zero and stay zero.
//
// The same source is compiled for each instruction set (vector_kernels_{portable,avx2,avx512,avx512_bf16}.cpp). The
// portable set is the reference with which tests compare the others.

#include <cstdint>
#include <string>
#include <vector>

namespace mlbench::framework::native_framework {

// The upper half of a float32. Arithmetic is in float32, and results are rounded to nearest even.
struct BFloat16 {
  uint16_t bits;
};

struct PoolShape {
  int64_t height = 0, width = 0;  // extents of the input
  int64_t kernel = 0, stride = 0;
  int64_t padding = 0;  // on every side, at most half the kernel; never the largest
};

// T is float or BFloat16. Pointers may be equal where a value is read and written at the same place.
template <typename T>
struct VectorKernels {
  int lanes = 0;

  // Adds the sum of each lane to `sum`, and the sum of its squares to `squares`. For 64 rows at a time, squares are
  // taken about these rows' own mean in float32, so that a large mean costs no digits.
  void (*moments)(const T* x, int64_t rows, double* sum, double* squares);

  // Computes y = act((x - mean) * scale + bias [+ addend]), where act is ReLU with `relu`, else nothing. `addend` may
  // be null. NaN passes ReLU.
  void (*normalise)(const T* x, const T* addend, int64_t rows, const float* mean, const float* scale, const float* bias,
                    bool relu, T* y);

  // Computes g = dy [+ extra] where y > 0, else 0. `extra` may be null. A null `y` means that there is no ReLU, and a
  // null `g` that g is not wanted. Adds the sums of g to `sum`, and those of g * (x - mean) to `product`.
  void (*norm_sums)(const T* x, const T* y, const T* dy, const T* extra, int64_t rows, const float* mean, T* g,
                    double* sum, double* product);

  // Computes dx = a * g + b * (x - mean) + c [+ extra]. `extra` may be null.
  void (*norm_input)(const T* x, const T* g, const T* extra, int64_t rows, const float* mean, const float* a,
                     const float* b, const float* c, T* dx);

  // Computes y = ReLU(x). NaN passes.
  void (*relu)(const T* x, int64_t rows, T* y);
  // Computes dx = dy where y > 0, else 0, or with `adds` adds it to dx.
  void (*relu_backward)(const T* y, const T* dy, int64_t rows, bool adds, T* dx);

  // Computes y = a + b.
  void (*add)(const T* a, const T* b, int64_t rows, T* y);

  // Computes the largest of each kernel x kernel square, with `relu` after ReLU. `winner` receives the number of the
  // first largest value (row-major in the square, padding included), or 255 where ReLU holds its gradient back. NaN
  // wins. Backward adds up what the squares that share a pixel hand to it.
  void (*max_pool)(const T* x, const PoolShape& shape, bool relu, T* y, uint8_t* winner);
  void (*max_pool_backward)(const T* dy, const uint8_t* winner, const PoolShape& shape, T* dx);
};

// Kernels for rows of a matrix (task 2a).
struct RowKernels {
  // Returns <row, weight>. Meanwhile prefetches the first half of `next`, the row to come (null: none).
  float (*dot)(const float* row, const float* weight, int64_t count, const float* next);
  // Computes sum += scale * row. Meanwhile prefetches the second half of `next` (null: none).
  void (*add_scaled)(const float* row, float scale, int64_t count, const float* next, float* sum);
};

// The samples of one call, in whole blocks of channels.
struct WinogradShape {
  int64_t samples = 0, height = 0, width = 0;
  int64_t in = 0, out = 0;  // channels
};

// Kernels of convolutions of 3x3, stride 1 and padding 1 in Winograd's order, on blocked activations. `scratch` has
// scratch_elements() floats, and is best aligned to 64 bytes. Outputs and gradients of inputs are the same bits however
// samples are divided into calls.
struct WinogradKernels {
  int points = 0;  // packed weights, and sums of gradients, are {points, in x out}
  int64_t (*scratch_elements)(const WinogradShape& shape);

  // Packs the share [first, last) of a weight {out, in, 3, 3}, in vectors, of which there are in x out / lanes. With
  // `for_input`, it is packed for the gradient of the input, a convolution of the output's gradient.
  void (*pack_weight)(const float* weight, int64_t out, int64_t in, bool for_input, int64_t first, int64_t last,
                      float* packed);
  // Computes y = x * weight [+ bias], or with `adds` adds it to y. `bias` may be null.
  void (*convolve)(const float* x, const WinogradShape& shape, const float* packed, const float* bias, bool adds,
                   float* scratch, float* y);
  // Adds the gradient of the weight, transformed, to `sums`.
  void (*weight_sums)(const float* x, const float* dy, const WinogradShape& shape, float* scratch, float* sums);
  // Transforms the sum of `parts` sums back to the share [first, last) of a gradient {out, in, 3, 3}, in vectors as
  // above; with `adds` adds it.
  void (*unpack_gradient)(const float* const* sums, int parts, int64_t out, int64_t in, int64_t first, int64_t last,
                          bool adds, float* gradient);
};

// Each set includes those before it.
enum class InstructionSet { kPortable, kAvx2, kAvx512, kAvx512Bf16 };
const char* name_of(InstructionSet set);

// The sets that this CPU has, the portable one first. ONEDNN_MAX_CPU_ISA limits them, as it limits oneDNN.
std::vector<InstructionSet> instruction_sets();

// Precondition: `lanes` is 8 or 16.
template <typename T>
const VectorKernels<T>& vector_kernels(InstructionSet set, int lanes);
const RowKernels& row_kernels(InstructionSet set);
// Precondition: `lanes` is 8 or 16.
const WinogradKernels& winograd_kernels(InstructionSet set, int lanes);

}  // namespace mlbench::framework::native_framework
