#pragma once

// How fast a place of objects is by itself: threads read ranges of one size in a random order, and nothing is computed.

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

struct MeasureOptions {
  int threads = 4;
  int64_t range_bytes = int64_t{1} << 20;  // the last range of an object may be shorter; 0: whole objects
  std::chrono::milliseconds most_time{10'000};
  uint64_t seed = 42;  // of the order
};

struct Measured {
  int64_t objects = 0, object_bytes = 0;  // at the place
  int64_t ranges = 0, bytes = 0;          // that were read
  double seconds = 0;                     // from the first read to the end of the last
  bool complete = false;                  // each range was read once
  std::vector<double> read_s;             // of each read, ascending
  std::optional<int64_t>
      device_bytes;  // that the process read from disks meanwhile; empty where the kernel does not say
};

// Lists the objects, reads each of their ranges once, and stops earlier when the time is over. Throws UserError where
// there are no bytes to read or more than 50,000,000 ranges, and what the reads throw.
Measured measure(ObjectStore& store, const MeasureOptions& options);

}  // namespace mlbench::objects
