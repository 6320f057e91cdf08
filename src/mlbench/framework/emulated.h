#pragma once

// An emulated accelerator: each training step waits a stated time in place of forward and backward pass, as MLPerf
// Storage does. All else of a run is real: loading, the exchange of gradients, the optimizer and the record.
//
// The model of a step: the forward pass takes a third of the time and the backward pass two thirds. Gradients become
// final from the last tensor to the first, each when the backward pass has taken the share of its time that the tensor
// and those before it have of all elements. The accelerator works beside the host, so that what the host does in the
// callback delays no other gradient. The first micro-batch of a step takes the whole forward time and the last one the
// whole backward time. Gradients are zeros. There are no losses and no outputs.

#include <functional>
#include <memory>

#include "mlbench/base/clock.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework {

struct EmulatedAccelerator {
  Nanoseconds step{0};
  const Clock& clock;                           // must outlive the framework
  std::function<void(TimePoint)> wait_until{};  // of `clock`; empty: sleeps
};

// The framework `own` has the parameters, the layout and the memory; its passes are never called.
std::unique_ptr<Framework> emulate(std::unique_ptr<Framework> own, EmulatedAccelerator accelerator);

}  // namespace mlbench::framework
