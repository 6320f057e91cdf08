#include <cpuid.h>
#include <immintrin.h>

#include "mlbench/comm/reduce_element.h"

namespace mlbench::comm {

namespace {

#define MLBENCH_AVX2 __attribute__((target("avx2,f16c")))

// The plain loop, which the compiler vectorises for wider registers.
template <typename Format, ReduceOp op>
MLBENCH_AVX2 void accumulate_avx2(void* accumulator, const void* other, size_t count, bool other_first) {
  auto* __restrict a = static_cast<Element<Format>*>(accumulator);
  const auto* __restrict b = static_cast<const Element<Format>*>(other);
  for (size_t i = 0; i < count; ++i) accumulate_one<Format, op>(a[i], b[i], other_first);
}

MLBENCH_AVX2 inline __m256 load_eight(const void* bits, Float16) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(bits)));
}
MLBENCH_AVX2 inline void store_eight(void* bits, __m256 values, Float16) {
  _mm_storeu_si128(static_cast<__m128i*>(bits), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}
MLBENCH_AVX2 inline __m256 load_eight(const void* bits, BFloat16) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(bits)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
MLBENCH_AVX2 inline void store_eight(void* bits, __m256 values, BFloat16) {
  const __m256i raw = _mm256_castps_si256(values);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(raw, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(raw, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(raw, _mm256_set1_epi32(0x400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0b1000);
  _mm_storeu_si128(static_cast<__m128i*>(bits), _mm256_castsi256_si128(packed));
}

template <ReduceOp op>
MLBENCH_AVX2 inline __m256 combine_eight(__m256 a, __m256 b) {
  // The instructions return their second operand where the first is not less (or greater).
  if constexpr (op == ReduceOp::kMin) return _mm256_min_ps(b, a);
  if constexpr (op == ReduceOp::kMax) return _mm256_max_ps(b, a);
  if constexpr (op == ReduceOp::kProd) return _mm256_mul_ps(a, b);
  return _mm256_add_ps(a, b);
}

template <typename Format, ReduceOp op>
MLBENCH_AVX2 void accumulate_half_avx2(void* accumulator, const void* other, size_t count, bool other_first) {
  auto* __restrict a = static_cast<Element<Format>*>(accumulator);
  const auto* __restrict b = static_cast<const Element<Format>*>(other);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 x = load_eight(a + i, Format());
    const __m256 y = load_eight(b + i, Format());
    store_eight(a + i, other_first ? combine_eight<op>(y, x) : combine_eight<op>(x, y), Format());
  }
  for (; i < count; ++i) accumulate_one<Format, op>(a[i], b[i], other_first);
}

template <typename Format>
MLBENCH_AVX2 void divide_half_avx2(void* values, size_t count, int divisor) {
  auto* v = static_cast<Element<Format>*>(values);
  const __m256 divisors = _mm256_set1_ps(static_cast<float>(divisor));
  size_t i = 0;
  for (; i + 8 <= count; i += 8) store_eight(v + i, _mm256_div_ps(load_eight(v + i, Format()), divisors), Format());
  for (; i < count; ++i) divide_one<Format>(v[i], divisor);
}

template <typename Format>
MLBENCH_AVX2 void narrow_avx2(uint16_t* narrow, const float* wide, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) store_eight(narrow + i, _mm256_loadu_ps(wide + i), Format());
  for (; i < count; ++i) narrow[i] = Format::store(wide[i]);
}

template <typename Format>
MLBENCH_AVX2 void widen_avx2(float* wide, const uint16_t* narrow, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(wide + i, load_eight(narrow + i, Format()));
  for (; i < count; ++i) wide[i] = Format::load(narrow[i]);
}

template <ReduceOp op>
AccumulateFunction avx2_function(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return accumulate_avx2<Plain<uint8_t>, op>;
    case DType::kInt8:
      return accumulate_avx2<Plain<int8_t>, op>;
    case DType::kInt32:
      return accumulate_avx2<Plain<int32_t>, op>;
    case DType::kInt64:
      return accumulate_avx2<Plain<int64_t>, op>;
    case DType::kFloat16:
      return accumulate_half_avx2<Float16, op>;
    case DType::kBFloat16:
      return accumulate_half_avx2<BFloat16, op>;
    case DType::kFloat32:
      return accumulate_avx2<Plain<float>, op>;
    case DType::kFloat64:
      return accumulate_avx2<Plain<double>, op>;
  }
  return nullptr;
}

// clang 14's __builtin_cpu_supports has no name for F16C.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avx2_and_f16c() {
  static const bool usable = __builtin_cpu_supports("avx2") != 0 && has_f16c();
  return usable;
}

}  // namespace

// For the plain types, SSE2's loops are enough: memory is slower than these.
DivideFunction cpu_divide_function(DType dtype) {
  if (!has_avx2_and_f16c()) return nullptr;
  if (dtype == DType::kFloat16) return divide_half_avx2<Float16>;
  if (dtype == DType::kBFloat16) return divide_half_avx2<BFloat16>;
  return nullptr;
}

NarrowFunction cpu_narrow_function(DType dtype) {
  if (!has_avx2_and_f16c()) return nullptr;
  if (dtype == DType::kFloat16) return narrow_avx2<Float16>;
  if (dtype == DType::kBFloat16) return narrow_avx2<BFloat16>;
  return nullptr;
}

WidenFunction cpu_widen_function(DType dtype) {
  if (!has_avx2_and_f16c()) return nullptr;
  if (dtype == DType::kFloat16) return widen_avx2<Float16>;
  if (dtype == DType::kBFloat16) return widen_avx2<BFloat16>;
  return nullptr;
}

AccumulateFunction cpu_accumulate_function(DType dtype, ReduceOp op) {
  if (!has_avx2_and_f16c()) return nullptr;
  switch (op) {
    case ReduceOp::kSum:
      return avx2_function<ReduceOp::kSum>(dtype);
    case ReduceOp::kProd:
      return avx2_function<ReduceOp::kProd>(dtype);
    case ReduceOp::kMin:
      return avx2_function<ReduceOp::kMin>(dtype);
    case ReduceOp::kMax:
      return avx2_function<ReduceOp::kMax>(dtype);
    case ReduceOp::kAvg:
      break;
  }
  return nullptr;
}

}  // namespace mlbench::comm
