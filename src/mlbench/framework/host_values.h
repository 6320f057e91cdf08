#pragma once

#include <ATen/ATen.h>

#include <span>

#include "mlbench/framework/framework.h"

namespace mlbench::framework {

// The values of one of a framework's flat buffers, for the host: those themselves where they lie in its memory, else a
// copy, taken here.
class HostValues {
 public:
  HostValues(Framework& framework, at::Tensor flat);

  std::span<float> values() const { return values_of(host_); }
  // What stands in values() counts from the next forward pass on. Without separate memory it does anyway.
  void store();

 private:
  void count();

  SeparateMemory* memory_;  // null: the host's
  at::Tensor flat_, host_;
};

}  // namespace mlbench::framework
