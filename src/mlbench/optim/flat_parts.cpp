#include "mlbench/optim/flat_parts.h"

#include <algorithm>

namespace mlbench::optim {

FlatPart part_of_rank(int64_t elements, int rank, int ranks) {
  const int64_t longest = (elements + ranks - 1) / ranks, offset = std::min(rank * longest, elements);
  return {offset, std::min(longest, elements - offset)};
}

FlatLayout vectors_of_part(const FlatLayout& layout, const FlatPart& part) {
  FlatLayout own;
  own.parameter_elements = part.count;
  for (const FlatRange& range : layout.ranges) {
    const int64_t begin = std::max(range.offset, part.offset);
    const int64_t end = std::min(range.offset + range.count, part.offset + part.count);
    if (!range.trainable || begin >= end) continue;
    own.ranges.push_back({range.name, {end - begin}, begin - part.offset, end - begin, true, range.use});
  }
  return own;
}

}  // namespace mlbench::optim
