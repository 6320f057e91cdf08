#pragma once

// Finds stalls: sizes that took at least ten times as long as both the next smaller and the next larger size. A stall
// comes from timers, buffers or other programs and is no property of the network, so a reader must not take it for one.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/collectives.h"

namespace mlbench::report {

// The indices of stalls among `times`, which belong to ascending sizes.
std::vector<size_t> stalled_among(const std::vector<double>& times);

// A row that stalled in one form, and the rows next to it in size, of the same operation, type, reduction and cycle.
struct Stall {
  const record::CollectiveRow *row = nullptr, *smaller = nullptr, *larger = nullptr;
  bool in_place = false;
};
// The stalls among `rows`, by the mean of the iterations and in the order of the rows. The stalls point at `rows`.
std::vector<Stall> stalls_of(std::span<const record::CollectiveRow> rows);

// "65536 B in place took 1374 times as long as 32768 B and 243 times as long as 131072 B"
std::string in_words(const Stall& stall);
Json to_json(const Stall& stall);

}  // namespace mlbench::report
