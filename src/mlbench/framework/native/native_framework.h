#pragma once

// oneDNN on the CPU: activations in blocked layouts from the input to the loss, chunks of samples that stay in a core's
// cache from one operation to the next, kernels of our own around oneDNN's convolutions (tape.h).
// Precisions: float32; bf16 where the CPU multiplies bfloat16.

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
