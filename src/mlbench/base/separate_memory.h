#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "mlbench/base/buffer.h"

namespace mlbench {

// Memory that the host reaches by copies alone, such as a GPU's: where it is, and how much was copied either way.
struct SeparateMemory {
  // The memory is accessed in this stream's order. The device is the CPU where a test treats host memory as separate.
  Stream stream;
  // The bytes copied either way so far. `batch_bytes` counts samples, tokens and targets; `flat_bytes` counts
  // parameters, gradients, running statistics and what an optimizer keeps beside them. Whoever copies counts, on any
  // thread.
  std::atomic<uint64_t> batch_bytes{0}, flat_bytes{0};

  virtual ~SeparateMemory() = default;
  // Copies a buffer that lies there to the host's memory, or from there; the host waits. Default: of the CPU's memory.
  virtual void to_host(const BufferView& from, void* to) {
    if (from.size_bytes() > 0) std::memcpy(to, from.data, from.size_bytes());
  }
  virtual void from_host(const void* from, const BufferView& to) {
    if (to.size_bytes() > 0) std::memcpy(to.data, from, to.size_bytes());
  }
};

}  // namespace mlbench
