#pragma once

#include <cstdint>

namespace mlbench::compress {

// What coders, exchange patterns and rules know of the step that begins.
struct StepContext {
  int64_t step = 0;  // from 0
  double lr = 0;     // the learning rate, the same on all ranks
  // The weight of this rank in the mean over all ranks: its samples (or target tokens) over those of the step. The
  // gradient of this rank is `share` times that of the mean over its own samples; 0: it has none.
  double share = 1;
};

}  // namespace mlbench::compress
