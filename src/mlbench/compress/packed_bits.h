#pragma once

// Numbers of a few bits each, one after the other in bytes, the lowest bit first.

#include <cstdint>
#include <span>

namespace mlbench::compress {

// Bytes of `count` numbers of `bits` bits.
inline int64_t packed_bytes(int64_t count, int bits) { return (count * bits + 7) / 8; }

// Packs values[i] < 2^bits into `bytes`, which are packed_bytes(values.size(), bits) long. Precondition: 1 <= bits <=
// 8.
void pack_bits(std::span<const uint8_t> values, int bits, uint8_t* bytes);
void unpack_bits(const uint8_t* bytes, int bits, std::span<uint8_t> values);

}  // namespace mlbench::compress
