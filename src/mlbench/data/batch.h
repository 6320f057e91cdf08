#pragma once

// The samples of this rank in one step, in micro-batches.

#include <cstdint>
#include <span>

#include "mlbench/base/batch.h"

namespace mlbench::data {

struct Batch {
  std::span<const BatchView> micro;  // in order; none: this rank has no samples in this step
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  int64_t samples = 0, weight = 0;                // of this rank: sums over its micro-batches
  int64_t global_samples = 0, global_weight = 0;  // of all ranks
  // A micro-batch's share of the step's gradient is the gradient of its mean loss times its weight / divisor. The
  // exchange sums the shares of all ranks, and the sum is divided by sum_divisor (plan.h).
  double divisor = 1, sum_divisor = 1;
  double relative_length = 1;  // of the step's sequences; 1 where all are alike

  double share_of(const BatchView& part) const { return static_cast<double>(part.weight) / divisor; }
  // The weight of this rank in the step's mean. Those of all ranks sum to 1, whatever losses are divided by.
  double share() const { return static_cast<double>(weight) / static_cast<double>(global_weight); }
};

}  // namespace mlbench::data
