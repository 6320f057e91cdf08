#pragma once

#include <atomic>
#include <cstdint>

#include "mlbench/base/buffer.h"

namespace mlbench {

// Memory that the host reaches by copies alone, as a GPU's: where it is, and what was copied to and fro.
struct SeparateMemory {
  // In whose order it is touched. Of the CPU where a test treats memory of the host as separate.
  Stream stream;
  // Copied either way so far: samples, tokens and targets; parameters, gradients, running statistics and what an
  // optimizer keeps beside them. Counted by whoever copies, on any thread.
  std::atomic<uint64_t> batch_bytes{0}, flat_bytes{0};
};

}  // namespace mlbench
