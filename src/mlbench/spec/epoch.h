#pragma once

#include <cmath>
#include <cstdint>

namespace mlbench::spec {

// Steps that see each of `samples` (> 0) once, in batches of `global_batch` (> 0: of all ranks together), the last one
// of what is left.
inline int64_t steps_per_epoch(int64_t samples, int64_t global_batch) {
  return (samples + global_batch - 1) / global_batch;
}

// Steps of a number of epochs, which need not be whole: an epoch that has begun ends with a whole step.
inline int64_t steps_of_epochs(double epochs, int64_t steps_per_epoch) {
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch) - 1e-9));
}

}  // namespace mlbench::spec
