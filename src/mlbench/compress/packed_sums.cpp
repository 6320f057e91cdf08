#include "mlbench/compress/packed_sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "mlbench/base/vector_clones.h"
#include "mlbench/compress/packed_bits.h"

namespace mlbench::compress {

void add_signs_reference(const uint8_t* bits, int64_t count, float positive, float other, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += ((bits[i / 8] >> (i % 8)) & 1) != 0 ? positive : other;
}

void add_levels_reference(const uint8_t* packed, int width, int64_t count, float step, float* sums) {
  std::array<uint8_t, 8> codes{};
  for (int64_t first = 0; first < count; first += 8, packed += width) {
    const std::span<uint8_t> group = std::span(codes).first(static_cast<size_t>(std::min<int64_t>(8, count - first)));
    unpack_bits(packed, width, group);
    for (size_t i = 0; i < group.size(); ++i) {
      const float magnitude = step * static_cast<float>(group[i] >> 1);
      sums[static_cast<size_t>(first) + i] += (group[i] & 1) != 0 ? -magnitude : magnitude;
    }
  }
}

namespace {

// Eight elements: one byte of signs, or `width` bytes of levels.
using Words [[gnu::vector_size(32)]] = uint32_t;
using Numbers [[gnu::vector_size(32)]] = int32_t;
using Floats [[gnu::vector_size(32)]] = float;
using FloatsInMemory [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;

MLBENCH_VECTOR_CLONES void add_sign_bytes(const uint8_t* __restrict bits, int64_t groups, float positive, float other,
                                          float* __restrict sums) {
  const Words bit = {1, 2, 4, 8, 16, 32, 64, 128};
  const Floats ones = Floats{} + positive, zeros = Floats{} + other;
  for (int64_t group = 0; group < groups; ++group) {
    FloatsInMemory& to = *reinterpret_cast<FloatsInMemory*>(sums + 8 * group);
    const Words set = (Words{} + bits[group]) & bit;
    to += set != 0 ? ones : zeros;
  }
}

// Reads eight bytes per group, of which `width` are its own. Four numbers are in 32 bits.
MLBENCH_VECTOR_CLONES void add_level_groups(const uint8_t* __restrict packed, uint32_t width, int64_t groups,
                                            float step, float* __restrict sums) {
  const Words shift = {0, width, 2 * width, 3 * width, 0, width, 2 * width, 3 * width};
  const uint32_t mask = (1U << width) - 1U;
  for (int64_t group = 0; group < groups; ++group, packed += width) {
    uint64_t word = 0;
    std::memcpy(&word, packed, sizeof word);
    const auto low = static_cast<uint32_t>(word), high = static_cast<uint32_t>(word >> (4 * width));
    const Words both = {low, low, low, low, high, high, high, high};
    const Words codes = (both >> shift) & mask;
    const auto levels = __builtin_convertvector(reinterpret_cast<Numbers>(codes >> 1), Floats);
    FloatsInMemory& to = *reinterpret_cast<FloatsInMemory*>(sums + 8 * group);
    to += reinterpret_cast<Floats>(reinterpret_cast<Words>(levels * step) ^ (codes << 31));
  }
}

}  // namespace

void add_signs(const uint8_t* bits, int64_t count, float positive, float other, float* sums) {
  const int64_t groups = count / 8;
  add_sign_bytes(bits, groups, positive, other, sums);
  add_signs_reference(bits + groups, count - 8 * groups, positive, other, sums + 8 * groups);
}

void add_levels(const uint8_t* packed, int width, int64_t count, float step, float* sums) {
  const int64_t bytes_behind = packed_bytes(count, width) - static_cast<int64_t>(sizeof(uint64_t));
  const int64_t groups = bytes_behind < 0 ? 0 : std::min(count / 8, bytes_behind / width + 1);
  add_level_groups(packed, static_cast<uint32_t>(width), groups, step, sums);
  add_levels_reference(packed + groups * width, width, count - 8 * groups, step, sums + 8 * groups);
}

MLBENCH_VECTOR_CLONES void take_signs(int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<float>((sums[i] > 0) - (sums[i] < 0));
}

}  // namespace mlbench::compress
