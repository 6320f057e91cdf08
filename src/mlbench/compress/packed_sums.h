#pragma once

// What packed numbers stand for, added to float32 sums. Additions have a plain form, and one that takes
// eight elements at a time, with the same bits: each product and each sum is rounded by itself.

#include <cstdint>

namespace mlbench::compress {

// sums[i] += `positive` where bit i of `bits` is 1 (the lowest bit of a byte first), else `other`.
void add_signs_reference(const uint8_t* bits, int64_t count, float positive, float other, float* sums);
void add_signs(const uint8_t* bits, int64_t count, float positive, float other, float* sums);

// sums[i] += step * (c / 2) where the i-th number c of pack_bits() is even, else -= step * ((c - 1) / 2).
// Precondition: 1 <= width <= 8, in bits.
void add_levels_reference(const uint8_t* packed, int width, int64_t count, float step, float* sums);
void add_levels(const uint8_t* packed, int width, int64_t count, float step, float* sums);

// sums[i] becomes 1, -1, or 0 where it is zero.
void take_signs(int64_t count, float* sums);

}  // namespace mlbench::compress
