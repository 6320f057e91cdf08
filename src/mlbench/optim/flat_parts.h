#pragma once

// Parts of the flat buffers, one per rank.

#include <cstdint>

#include "mlbench/base/flat_layout.h"

namespace mlbench::optim {

// A part of the flat buffers, in elements.
struct FlatPart {
  int64_t offset = 0, count = 0;

  bool operator==(const FlatPart&) const = default;
};

// The part of a rank where each has ceil(elements / ranks) elements, the last ones fewer or none.
FlatPart part_of_rank(int64_t elements, int rank, int ranks);

// The layout of a part by itself: what it has of each trainable range, as a vector.
FlatLayout vectors_of_part(const FlatLayout& layout, const FlatPart& part);

}  // namespace mlbench::optim
