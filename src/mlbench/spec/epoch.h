#pragma once

#include <cmath>
#include <cstdint>

namespace mlbench::spec {

// The number of steps that see each of `samples` samples once, in batches of `global_batch` of all ranks together; the
// last batch has what is left. Precondition: both are above 0.
inline int64_t steps_per_epoch(int64_t samples, int64_t global_batch) {
  return (samples + global_batch - 1) / global_batch;
}

// How many of `samples` samples data.holdout, a share of them below 1, keeps from training.
inline int64_t held_out_samples(int64_t samples, double holdout) {
  return static_cast<int64_t>(std::floor(static_cast<double>(samples) * holdout));
}

// The number of steps in `epochs` epochs, which need not be whole: the last step that has begun counts.
inline int64_t steps_of_epochs(double epochs, int64_t steps_per_epoch) {
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch) - 1e-9));
}

}  // namespace mlbench::spec
