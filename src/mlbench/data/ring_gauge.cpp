#include "mlbench/data/ring_gauge.h"

#include <algorithm>
#include <utility>

namespace mlbench::data {

void RingGauge::begin(int64_t capacity) {
  const std::lock_guard lock(mutex_);
  whole_.capacity = part_.capacity = capacity;
}

void RingGauge::take(int64_t fill) {
  const std::lock_guard lock(mutex_);
  for (RingCounts* counts : {&whole_, &part_}) {
    counts->min_fill = counts->takes == 0 ? fill : std::min(counts->min_fill, fill);
    counts->fills += fill;
    counts->waits += fill == 0 ? 1 : 0;
    ++counts->takes;
  }
}

RingCounts RingGauge::so_far() const {
  const std::lock_guard lock(mutex_);
  return whole_;
}

RingCounts RingGauge::since_last() {
  const std::lock_guard lock(mutex_);
  return std::exchange(part_, RingCounts{.capacity = whole_.capacity});
}

}  // namespace mlbench::data
