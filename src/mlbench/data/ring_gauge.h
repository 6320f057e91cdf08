#pragma once

// How full the ring of batches that are decoded ahead of the step was, each time that a step took one.

#include <cstdint>
#include <mutex>

namespace mlbench::data {

struct RingCounts {
  int64_t capacity = 0;  // the most batches that may be ready
  int64_t takes = 0;     // batches that were taken
  int64_t waits = 0;     // of these: none was ready, so that the step waited
  int64_t fills = 0;     // batches that were ready at a take, summed over the takes
  int64_t min_fill = 0;  // the fewest of them; 0 without takes
};

// Several threads may use one gauge.
class RingGauge {
 public:
  // A ring begins that holds so many batches.
  void begin(int64_t capacity);
  // A step takes a batch while `fill` are ready.
  void take(int64_t fill);
  // All takes; capacity 0: there is no ring.
  RingCounts so_far() const;
  // The takes since this was called before.
  RingCounts since_last();

 private:
  mutable std::mutex mutex_;
  RingCounts whole_, part_;
};

}  // namespace mlbench::data
