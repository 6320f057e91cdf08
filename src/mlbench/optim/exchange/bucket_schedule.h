#pragma once

// When the buckets of a step may go: each when all of its gradient is final, in an order that all ranks share. Plain
// bookkeeping: it neither waits nor sends.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/exchange/buckets.h"

namespace mlbench::optim {

class BucketSchedule {
 public:
  // Their order is that of `buckets` until another one is set. They hold every trainable tensor once, undivided.
  BucketSchedule(const FlatLayout& layout, const std::vector<Bucket>& buckets);

  // A step begins: nothing is final, nothing has gone.
  void begin();
  // Elements [first, first + count) of the flat gradient are final; each is told once at most.
  void ready(int64_t first, int64_t count);
  // All are.
  void ready_all();
  // The next bucket that may go (an index into the buckets), and counts as gone then; empty: none yet, or no more.
  std::optional<size_t> next();

  // The buckets in the order in which this step made them final.
  std::span<const int64_t> found_order() const { return found_; }
  // From now on they go in this order; between steps. MLBENCH_CHECK: each bucket once.
  void set_order(std::span<const int64_t> order);

 private:
  struct Tensor {
    int64_t offset = 0, count = 0;
    size_t bucket = 0;
  };
  void count_down(size_t bucket, int64_t elements);

  std::vector<Tensor> tensors_;    // by offset
  std::vector<int64_t> elements_;  // of each bucket, without padding
  std::vector<int64_t> missing_;   // of those, in this step
  std::vector<size_t> order_;
  std::vector<int64_t> found_;
  size_t gone_ = 0;
};

}  // namespace mlbench::optim
