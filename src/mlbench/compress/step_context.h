#pragma once

#include <cstdint>

namespace mlbench::compress {

// What coders, exchange patterns and rules know of the step that begins.
struct StepContext {
  int64_t step = 0;  // from 0
  double lr = 0;     // the learning rate, the same on all ranks
  // The weight of this rank in the mean over all ranks: its samples (or target tokens) over those of the step, or 0
  // where it has none. Its gradient over `share` is what its samples alone say of the sum of all ranks' gradients.
  double share = 1;
};

}  // namespace mlbench::compress
