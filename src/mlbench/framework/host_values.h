#pragma once

#include <memory>
#include <span>

#include "mlbench/base/buffer.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework {

// Gives the host the values of one of a framework's flat buffers: the buffer itself where it is in the host's memory,
// else a copy, which the constructor makes. The framework must outlive this object.
class HostValues {
 public:
  HostValues(Framework& framework, const BufferView& flat);

  std::span<float> values() const;
  // Copies values() back into the buffer, so that the next forward pass uses them. Without separate memory values() is
  // the buffer, and this does nothing.
  void store();

 private:
  SeparateMemory* memory_;  // null: the buffer is in the host's memory
  BufferView flat_;
  std::unique_ptr<float[]> copy_;
};

}  // namespace mlbench::framework
