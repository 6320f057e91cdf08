#pragma once

// The framework `null` computes nothing, in constant time: what remains of a run is the cost of the harness. Parameters
// and layout are the model's, gradients and outputs are zeros, and the loss is 0.

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::null_framework {

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

}  // namespace mlbench::framework::null_framework
