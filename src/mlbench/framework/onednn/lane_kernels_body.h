// The source of lane_kernels_*.cpp, each of which compiles it for one instruction set. It uses no inline function of
// another header: the linker keeps one copy of those, and that might be one for a CPU that is not there.

#pragma once

#include "mlbench/framework/onednn/lane_kernels.h"

namespace mlbench::framework::onednn_framework {

namespace {

#define MLBENCH_INLINE [[gnu::always_inline]] inline

template <int kLanes>
struct Lanes;
template <>
struct Lanes<16> {
  typedef float F __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));
  typedef uint32_t U __attribute__((vector_size(64)));
  typedef uint16_t H __attribute__((vector_size(32)));
  typedef uint8_t B __attribute__((vector_size(16)));
  typedef double D __attribute__((vector_size(128)));
};
template <>
struct Lanes<8> {
  typedef float F __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));
  typedef uint32_t U __attribute__((vector_size(32)));
  typedef uint16_t H __attribute__((vector_size(16)));
  typedef uint8_t B __attribute__((vector_size(8)));
  typedef double D __attribute__((vector_size(64)));
};

template <typename V, typename T>
MLBENCH_INLINE V read(const T* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <typename V, typename T>
MLBENCH_INLINE void write(T* to, const V& value) {
  __builtin_memcpy(to, &value, sizeof value);
}

template <int L>
MLBENCH_INLINE typename Lanes<L>::F load(const float* from) {
  return read<typename Lanes<L>::F>(from);
}
template <int L>
MLBENCH_INLINE typename Lanes<L>::F load(const BFloat16* from) {
  using U = typename Lanes<L>::U;
  const U wide = __builtin_convertvector(read<typename Lanes<L>::H>(from), U) << 16;
  return read<typename Lanes<L>::F>(&wide);
}
template <int L>
MLBENCH_INLINE void store(float* to, typename Lanes<L>::F value) {
  write(to, value);
}
template <int L>
MLBENCH_INLINE void store(BFloat16* to, typename Lanes<L>::F value) {
  using U = typename Lanes<L>::U;
  const U raw = read<U>(&value);
  const U rounded = (raw + 0x7fff + ((raw >> 16) & 1)) >> 16;
  const U quiet = (raw >> 16) | 0x40;
  const U bits = value == value ? rounded : quiet;
  write(to, __builtin_convertvector(bits, typename Lanes<L>::H));
}

// Rows that are summed in float32 before they join a float64 sum.
constexpr int64_t kBlock = 64;

template <int L, typename T>
void moments(const T* x, int64_t rows, double* sum, double* squares) {
  using F = typename Lanes<L>::F;
  using D = typename Lanes<L>::D;
  D total = read<D>(sum), total_squares = read<D>(squares);
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t count = rows - begin < kBlock ? rows - begin : kBlock;
    const T* from = x + begin * L;
    F part[4] = {};
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) {
      for (int i = 0; i < 4; ++i) part[i] += load<L>(from + (r + i) * L);
    }
    for (; r < count; ++r) part[0] += load<L>(from + r * L);
    const F block = (part[0] + part[1]) + (part[2] + part[3]);
    const F mean = block / static_cast<float>(count);
    F square[4] = {};
    for (r = 0; r + 4 <= count; r += 4) {
      for (int i = 0; i < 4; ++i) {
        const F distance = load<L>(from + (r + i) * L) - mean;
        square[i] += distance * distance;
      }
    }
    for (; r < count; ++r) {
      const F distance = load<L>(from + r * L) - mean;
      square[0] += distance * distance;
    }
    const D s = __builtin_convertvector(block, D), m = __builtin_convertvector(mean, D);
    const D about_mean = __builtin_convertvector((square[0] + square[1]) + (square[2] + square[3]), D);
    total += s;
    total_squares += about_mean + m * (2 * s - static_cast<double>(count) * m);
  }
  write(sum, total);
  write(squares, total_squares);
}

template <int L, typename T, bool kAdd, bool kRelu>
MLBENCH_INLINE void normalise_rows(const T* x, const T* addend, int64_t rows, const float* mean, const float* scale,
                                   const float* bias, T* y) {
  using F = typename Lanes<L>::F;
  const F m = load<L>(mean), s = load<L>(scale), b = load<L>(bias);
  for (int64_t r = 0; r < rows; ++r) {
    F value = (load<L>(x + r * L) - m) * s + b;
    if constexpr (kAdd) value += load<L>(addend + r * L);
    if constexpr (kRelu) value = value < 0 ? F{} : value;
    store<L>(y + r * L, value);
  }
}

template <int L, typename T>
void normalise(const T* x, const T* addend, int64_t rows, const float* mean, const float* scale, const float* bias,
               bool relu, T* y) {
  if (addend != nullptr && relu) return normalise_rows<L, T, true, true>(x, addend, rows, mean, scale, bias, y);
  if (addend != nullptr) return normalise_rows<L, T, true, false>(x, addend, rows, mean, scale, bias, y);
  if (relu) return normalise_rows<L, T, false, true>(x, addend, rows, mean, scale, bias, y);
  return normalise_rows<L, T, false, false>(x, addend, rows, mean, scale, bias, y);
}

template <int L, typename T, bool kRelu, bool kExtra>
MLBENCH_INLINE void norm_sums_rows(const T* x, const T* y, const T* dy, const T* extra, int64_t rows, const float* mean,
                                   T* g, double* sum, double* product) {
  using F = typename Lanes<L>::F;
  using D = typename Lanes<L>::D;
  const F m = load<L>(mean);
  D total = read<D>(sum), products = read<D>(product);
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t end = rows - begin < kBlock ? rows : begin + kBlock;
    F part[2] = {}, part_product[2] = {};
    const auto one = [&](int64_t r, int i) __attribute__((always_inline)) {
      F value = load<L>(dy + r * L);
      if constexpr (kExtra) value += load<L>(extra + r * L);
      if constexpr (kRelu) value = load<L>(y + r * L) > 0 ? value : F{};
      if (g != nullptr) store<L>(g + r * L, value);
      part[i] += value;
      part_product[i] += value * (load<L>(x + r * L) - m);
    };
    int64_t r = begin;
    for (; r + 2 <= end; r += 2) {
      one(r, 0);
      one(r + 1, 1);
    }
    if (r < end) one(r, 0);
    total += __builtin_convertvector(part[0] + part[1], D);
    products += __builtin_convertvector(part_product[0] + part_product[1], D);
  }
  write(sum, total);
  write(product, products);
}

template <int L, typename T>
void norm_sums(const T* x, const T* y, const T* dy, const T* extra, int64_t rows, const float* mean, T* g, double* sum,
               double* product) {
  const bool relu = y != nullptr;
  if (relu && extra != nullptr) return norm_sums_rows<L, T, true, true>(x, y, dy, extra, rows, mean, g, sum, product);
  if (relu) return norm_sums_rows<L, T, true, false>(x, y, dy, extra, rows, mean, g, sum, product);
  if (extra != nullptr) return norm_sums_rows<L, T, false, true>(x, y, dy, extra, rows, mean, g, sum, product);
  return norm_sums_rows<L, T, false, false>(x, y, dy, extra, rows, mean, g, sum, product);
}

template <int L, typename T, bool kExtra>
MLBENCH_INLINE void norm_input_rows(const T* x, const T* g, const T* extra, int64_t rows, const float* mean,
                                    const float* a, const float* b, const float* c, T* dx) {
  using F = typename Lanes<L>::F;
  const F m = load<L>(mean), fa = load<L>(a), fb = load<L>(b), fc = load<L>(c);
  for (int64_t r = 0; r < rows; ++r) {
    F value = fa * load<L>(g + r * L) + (fb * (load<L>(x + r * L) - m) + fc);
    if constexpr (kExtra) value += load<L>(extra + r * L);
    store<L>(dx + r * L, value);
  }
}

template <int L, typename T>
void norm_input(const T* x, const T* g, const T* extra, int64_t rows, const float* mean, const float* a, const float* b,
                const float* c, T* dx) {
  if (extra != nullptr) return norm_input_rows<L, T, true>(x, g, extra, rows, mean, a, b, c, dx);
  return norm_input_rows<L, T, false>(x, g, extra, rows, mean, a, b, c, dx);
}

template <int L, typename T>
void add(const T* a, const T* b, int64_t rows, T* y) {
  for (int64_t r = 0; r < rows; ++r) store<L>(y + r * L, load<L>(a + r * L) + load<L>(b + r * L));
}

constexpr int32_t kNobody = 255;

template <int L, typename T>
void max_pool(const T* x, const PoolShape& s, bool relu, T* y, uint8_t* winner) {
  using F = typename Lanes<L>::F;
  using I = typename Lanes<L>::I;
  for (int64_t row = 0; row < s.height; row += s.kernel) {
    for (int64_t column = 0; column < s.width; column += s.kernel) {
      const T* corner = x + (row * s.width + column) * L;
      F best = load<L>(corner);
      I index = {};
      for (int64_t i = 1; i < s.kernel * s.kernel; ++i) {
        const F value = load<L>(corner + (i / s.kernel * s.width + i % s.kernel) * L);
        const I wins = (value > best) | (value != value);
        best = wins ? value : best;
        index = wins ? I{} + static_cast<int32_t>(i) : index;
      }
      if (relu) {
        const I held = best <= 0;
        best = held ? F{} : best;
        index = held ? I{} + kNobody : index;
      }
      store<L>(y, best);
      write(winner, __builtin_convertvector(index, typename Lanes<L>::B));
      y += L;
      winner += L;
    }
  }
}

template <int L, typename T>
void max_pool_backward(const T* dy, const uint8_t* winner, const PoolShape& s, T* dx) {
  using F = typename Lanes<L>::F;
  using I = typename Lanes<L>::I;
  for (int64_t row = 0; row < s.height; row += s.kernel) {
    for (int64_t column = 0; column < s.width; column += s.kernel) {
      T* corner = dx + (row * s.width + column) * L;
      const F value = load<L>(dy);
      const I index = __builtin_convertvector(read<typename Lanes<L>::B>(winner), I);
      for (int64_t i = 0; i < s.kernel * s.kernel; ++i) {
        store<L>(corner + (i / s.kernel * s.width + i % s.kernel) * L, index == static_cast<int32_t>(i) ? value : F{});
      }
      dy += L;
      winner += L;
    }
  }
}

template <int L, typename T>
constexpr LaneKernels<T> kKernels = {
    L,         moments<L, T>,  normalise<L, T>,        norm_sums<L, T>, norm_input<L, T>,
    add<L, T>, max_pool<L, T>, max_pool_backward<L, T>};

MLBENCH_INLINE void ask_for(const float* next, int64_t begin, int64_t i) {
  if (next != nullptr) __builtin_prefetch(next + begin + i, 0, 3);
}

float dot(const float* row, const float* weight, int64_t count, const float* next) {
  using F = Lanes<16>::F;
  F sums[4] = {};
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    // Half a row's lines are asked for here, the other half in add_scaled: memory works all the time.
    ask_for(next, 0, i / 2);
    ask_for(next, 0, i / 2 + 16);
    for (int j = 0; j < 4; ++j) sums[j] += load<16>(row + i + 16 * j) * load<16>(weight + i + 16 * j);
  }
  for (; i + 16 <= count; i += 16) sums[0] += load<16>(row + i) * load<16>(weight + i);
  const F all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = 0;
  for (int j = 0; j < 16; ++j) sum += all[j];
  for (; i < count; ++i) sum += row[i] * weight[i];
  return sum;
}

void add_scaled(const float* row, float scale, int64_t count, const float* next, float* sum) {
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    ask_for(next, count / 2, i / 2);
    ask_for(next, count / 2, i / 2 + 16);
    for (int j = 0; j < 4; ++j) {
      const int64_t at = i + 16 * j;
      store<16>(sum + at, load<16>(sum + at) + scale * load<16>(row + at));
    }
  }
  for (; i < count; ++i) sum[i] += scale * row[i];
}

constexpr RowKernels kRowKernels = {dot, add_scaled};

}  // namespace

#undef MLBENCH_INLINE

}  // namespace mlbench::framework::onednn_framework
