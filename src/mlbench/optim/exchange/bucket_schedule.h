#pragma once

// When the buckets of a step may be sent: each when all of its gradient is final, in an order that all ranks share.
// This is plain bookkeeping, which neither waits nor sends.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/exchange/buckets.h"

namespace mlbench::optim {

class BucketSchedule {
 public:
  // The order is that of `buckets` until another one is set. Precondition: they have every trainable tensor that
  // has elements once, undivided.
  BucketSchedule(const FlatLayout& layout, const std::vector<Bucket>& buckets);

  // Begins a step: no element is final, and no bucket has been sent. A bucket without elements may be sent at once.
  void begin();
  // The elements [first, first + count) of the flat gradient are final. Each element may be reported once.
  void ready(int64_t first, int64_t count);
  // All elements are final.
  void ready_all();
  // The next bucket that may be sent, as an index into the buckets, which then counts as sent. Empty when there is
  // none.
  std::optional<size_t> next();

  // The buckets in the order in which this step made their gradients final.
  std::span<const int64_t> found_order() const { return found_; }
  // From now on, buckets are sent in this order. Call it between steps. MLBENCH_CHECK: `order` has each bucket once.
  void set_order(std::span<const int64_t> order);

 private:
  struct Tensor {
    int64_t offset = 0, count = 0;
    size_t bucket = 0;
  };
  void count_down(size_t bucket, int64_t elements);

  std::vector<Tensor> tensors_;    // by offset
  std::vector<int64_t> elements_;  // of each bucket, without padding
  std::vector<int64_t> missing_;   // elements of each bucket that are not final in this step
  std::vector<size_t> order_;
  std::vector<int64_t> found_;
  size_t gone_ = 0;
};

}  // namespace mlbench::optim
