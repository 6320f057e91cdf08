#pragma once

#include <cstdint>

namespace mlbench::spec {

// Steps that see each of `samples` (> 0) once, in batches of `global_batch` (> 0: of all ranks together), the last one
// of what is left.
inline int64_t steps_per_epoch(int64_t samples, int64_t global_batch) {
  return (samples + global_batch - 1) / global_batch;
}

}  // namespace mlbench::spec
