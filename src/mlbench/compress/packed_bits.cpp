#include "mlbench/compress/packed_bits.h"

#include <algorithm>

namespace mlbench::compress {

// Eight numbers of b bits are b bytes.
void pack_bits(std::span<const uint8_t> values, int bits, uint8_t* bytes) {
  for (size_t first = 0; first < values.size(); first += 8) {
    const size_t count = std::min<size_t>(8, values.size() - first);
    uint64_t word = 0;
    for (size_t i = 0; i < count; ++i) word |= uint64_t{values[first + i]} << (i * static_cast<size_t>(bits));
    const int64_t length = packed_bytes(static_cast<int64_t>(count), bits);
    for (int64_t i = 0; i < length; ++i) *bytes++ = static_cast<uint8_t>(word >> (8 * i));
  }
}

void unpack_bits(const uint8_t* bytes, int bits, std::span<uint8_t> values) {
  const auto mask = static_cast<uint8_t>((1U << bits) - 1U);
  for (size_t first = 0; first < values.size(); first += 8) {
    const size_t count = std::min<size_t>(8, values.size() - first);
    uint64_t word = 0;
    const int64_t length = packed_bytes(static_cast<int64_t>(count), bits);
    for (int64_t i = 0; i < length; ++i) word |= uint64_t{*bytes++} << (8 * i);
    for (size_t i = 0; i < count; ++i) {
      values[first + i] = static_cast<uint8_t>(word >> (i * static_cast<size_t>(bits))) & mask;
    }
  }
}

}  // namespace mlbench::compress
