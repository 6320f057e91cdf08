#pragma once

// Sizes that took out of all proportion: at least ten times as long as both the next smaller and the next larger one.
// That is no property of a network but a stall, of timers, buffers or something else that ran; a reader who looks at
// bandwidths must not take it for one.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/collectives.h"

namespace mlbench::report {

// Indices of such times of ascending sizes.
std::vector<size_t> stalled_among(const std::vector<double>& times);

// A form of a row that stalled, and those that it is compared with, of the same operation, type, reduction and cycle.
struct Stall {
  const record::CollectiveRow *row = nullptr, *smaller = nullptr, *larger = nullptr;
  bool in_place = false;
};
// By the mean of the iterations, in the order of the rows, which the stalls point at.
std::vector<Stall> stalls_of(std::span<const record::CollectiveRow> rows);

// "65536 B in place took 1374 times as long as 32768 B and 243 times as long as 131072 B"
std::string in_words(const Stall& stall);
Json to_json(const Stall& stall);

}  // namespace mlbench::report
