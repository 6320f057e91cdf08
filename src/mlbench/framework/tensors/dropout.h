#pragma once

// The dropout masks of models/model.h: an element is 0 with probability `p`, else 1 / (1 - p). `key` is the layer's
// dropout_key. The reference gives the same bits as dropout_mask().

#include <cstdint>
#include <span>

namespace mlbench::framework {

void dropout_mask(uint64_t key, double p, std::span<float> mask);
void dropout_mask_reference(uint64_t key, double p, std::span<float> mask);

// Writes the elements [first, first + mask.size()) of a mask to `mask`, by the calling thread alone.
void dropout_mask_part(uint64_t key, double p, int64_t first, std::span<float> mask);

// Writes some rows of a mask to `mask`, one after the other: row i begins at element places[i] * features.
void dropout_mask_rows(uint64_t key, double p, std::span<const int64_t> places, int64_t features,
                       std::span<float> mask);

}  // namespace mlbench::framework
