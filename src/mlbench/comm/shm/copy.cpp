#include "mlbench/comm/shm/copy.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mlbench::comm::shm_backend {

#if defined(__SSE2__)

namespace {

constexpr size_t kPastCachesBytes = 16 << 10;
constexpr size_t kStrideBytes = 64;

// Copies four registers at a time; `store` writes one of them.
template <typename Store>
void copy_strides(std::byte* to, const std::byte* from, size_t bytes, const Store& store) {
  size_t i = 0;
  for (; i + kStrideBytes <= bytes; i += kStrideBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    store(target, a);
    store(target + 1, b);
    store(target + 2, c);
    store(target + 3, d);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace

void put_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes < kPastCachesBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  copy_strides(to, from, bytes, [](__m128i* target, __m128i value) { _mm_stream_si128(target, value); });
  _mm_sfence();  // such stores are not ordered before the stores that tell of them
}

void take_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes < kPastCachesBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  copy_strides(to, from, bytes, [](__m128i* target, __m128i value) { _mm_storeu_si128(target, value); });
}

#else

void put_bytes(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
void take_bytes(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace mlbench::comm::shm_backend
