#pragma once

// What comparing checksums has cost so far, so that the price of trusting no bytes can be told.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mlbench {

struct CheckCost {
  int64_t bytes = 0;  // whose checksum was computed
  int64_t ns = 0;     // that threads took for it, in all; a thread that waits for a processor counts
  CheckCost& operator+=(const CheckCost& other) {
    bytes += other.bytes;
    ns += other.ns;
    return *this;
  }
};

// Adds up the cost of checks. Several threads may use one meter. A check costs two looks at the clock, so it should be
// of a block, a record or a file.
class CheckMeter {
 public:
  // Returns what check() does, which computes a checksum of so many bytes.
  template <typename Check>
  auto measure(int64_t bytes, const Check& check) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = check();
    ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    bytes_ += bytes;
    return result;
  }
  CheckCost so_far() const { return {bytes_, ns_}; }

 private:
  std::atomic<int64_t> bytes_{0}, ns_{0};
};

}  // namespace mlbench
