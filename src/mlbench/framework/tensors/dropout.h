#pragma once

// Dropout masks of models/model.h: 0 with probability p, else 1 / (1 - p). Each has a plain reference that gives the
// same bits.

#include <cstdint>
#include <span>

namespace mlbench::framework {

void dropout_mask(uint64_t key, double p, std::span<float> mask);
void dropout_mask_reference(uint64_t key, double p, std::span<float> mask);

// Elements from `first` on of a mask, by the calling thread alone.
void dropout_mask_part(uint64_t key, double p, int64_t first, std::span<float> mask);

}  // namespace mlbench::framework
