#pragma once

// Which elements of an array are the largest: exact, and the same for every number of threads.

#include <cstdint>
#include <span>
#include <vector>

namespace mlbench::compress {

// The indices, in ascending order, of the `count` elements of largest absolute value; of equal values those with the
// smaller index. NaN counts as larger than all. Precondition: 0 <= count <= values.size() < 2^31.
std::vector<int32_t> largest_reference(std::span<const float> values, int64_t count);

// Returns what largest_reference() does. A sample gives a bound that is likely to be just below the count-th largest
// value; one pass over the values collects what reaches it, and a partial sort of these, about 1.3 * count, finds the
// bound's exact value. Where too few reached it, the bound is lowered and the pass repeated.
std::vector<int32_t> largest(std::span<const float> values, int64_t count);

}  // namespace mlbench::compress
