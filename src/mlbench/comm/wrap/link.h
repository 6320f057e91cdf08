#pragma once

// A network link as netem models it.

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "mlbench/base/clock.h"

namespace mlbench::comm {

struct LinkOptions {
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = 0;  // 0: no limit
};

// One direction between two ranks, which carries one message at a time, in the order of sending.
class Link {
 public:
  explicit Link(LinkOptions options) : options_(options) {}

  // When the last byte of a message that is sent at `now` arrives.
  TimePoint send(TimePoint now, size_t bytes) {
    const double seconds = options_.bytes_per_second > 0 ? static_cast<double>(bytes) / options_.bytes_per_second : 0;
    free_at_ = std::max(now, free_at_) + std::chrono::ceil<Nanoseconds>(std::chrono::duration<double>(seconds));
    return free_at_ + options_.latency;
  }

 private:
  LinkOptions options_;
  TimePoint free_at_{};
};

}  // namespace mlbench::comm
