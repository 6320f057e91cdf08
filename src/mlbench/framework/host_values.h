#pragma once

#include <memory>
#include <span>

#include "mlbench/base/buffer.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework {

// The values of one of a framework's flat buffers, for the host: those themselves where they lie in its memory, else a
// copy, taken here.
class HostValues {
 public:
  HostValues(Framework& framework, const BufferView& flat);

  std::span<float> values() const;
  // What stands in values() counts from the next forward pass on. Without separate memory it does anyway.
  void store();

 private:
  SeparateMemory* memory_;  // null: the host's
  BufferView flat_;
  std::unique_ptr<float[]> copy_;
};

}  // namespace mlbench::framework
