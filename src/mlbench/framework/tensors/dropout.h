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

}  // namespace mlbench::framework
