#pragma once

// SIMD kernels on blocked activations (oneDNN's nChw16c and nChw8c): a sample is {blocks of channels, height, width,
// lanes}, the lanes of a vector being neighbouring channels. A *plane* is one block of one sample: `rows` (= height x
// width) vectors of `lanes` channels. What exists per channel (mean, scale, sums ...) is [lanes], too. Lanes beyond the
// number of channels are zero and stay so.
//
// The same source is compiled for each instruction set (vector_kernels_{portable,avx2,avx512,avx512_bf16}.cpp); the
// portable one is the reference that the others are compared with.

#include <cstdint>
#include <string>
#include <vector>

namespace mlbench::framework::native_framework {

// Upper half of a float32. Arithmetic is in float32, results are rounded to nearest even.
struct BFloat16 {
  uint16_t bits;
};

struct PoolShape {
  int64_t height = 0, width = 0;  // of the input; multiples of `kernel`
  int64_t kernel = 0;             // = stride
};

// T: float or BFloat16. Pointers may be equal where a value is read and written at the same place.
template <typename T>
struct VectorKernels {
  int lanes = 0;

  // Adds to `sum` the sum of each lane, to `squares` that of its squares. Partial sums of 64 rows are about their own
  // mean in float32, so that a large mean costs no digits.
  void (*moments)(const T* x, int64_t rows, double* sum, double* squares);

  // y = act((x - mean) * scale + bias [+ addend]), act being ReLU or nothing; `addend` may be null. NaN passes ReLU.
  void (*normalise)(const T* x, const T* addend, int64_t rows, const float* mean, const float* scale, const float* bias,
                    bool relu, T* y);

  // g = (dy [+ extra]) where y > 0, else 0; `extra`, `y` (no ReLU) and `g` (not wanted) may be null. Adds to `sum` the
  // sums of g, to `product` those of g * (x - mean).
  void (*norm_sums)(const T* x, const T* y, const T* dy, const T* extra, int64_t rows, const float* mean, T* g,
                    double* sum, double* product);

  // dx = a * g + b * (x - mean) + c [+ extra]
  void (*norm_input)(const T* x, const T* g, const T* extra, int64_t rows, const float* mean, const float* a,
                     const float* b, const float* c, T* dx);

  // y = a + b
  void (*add)(const T* a, const T* b, int64_t rows, T* y);

  // Largest of each kernel x kernel square, of ReLU's output when `relu`. `winner` is the number of the first largest
  // one (row-major), 255 where ReLU holds its gradient back. NaN wins.
  void (*max_pool)(const T* x, const PoolShape& shape, bool relu, T* y, uint8_t* winner);
  void (*max_pool_backward)(const T* dy, const uint8_t* winner, const PoolShape& shape, T* dx);
};

// For rows of a matrix (task 2a).
struct RowKernels {
  // <row, weight>. Asks for the first half of `next` (null: nothing) to be brought near meanwhile.
  float (*dot)(const float* row, const float* weight, int64_t count, const float* next);
  // sum += scale * row. Asks for the second half of `next`.
  void (*add_scaled)(const float* row, float scale, int64_t count, const float* next, float* sum);
};

// Each has what those before it have.
enum class InstructionSet { kPortable, kAvx2, kAvx512, kAvx512Bf16 };
const char* name_of(InstructionSet set);

// What this CPU has, within what ONEDNN_MAX_CPU_ISA allows oneDNN; the portable one first.
std::vector<InstructionSet> instruction_sets();

// lanes: 8 or 16.
template <typename T>
const VectorKernels<T>& vector_kernels(InstructionSet set, int lanes);
const RowKernels& row_kernels(InstructionSet set);

}  // namespace mlbench::framework::native_framework
