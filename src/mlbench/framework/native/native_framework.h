#pragma once

// Kernels of our own on the CPU, around oneDNN's convolutions. Chains of layers (tape/): activations in blocked layouts
// from the input to the loss, chunks of samples that stay in a core's cache from one operation to the next. Graphs over
// tokens (graph/). Precisions: float32; bf16 where the CPU multiplies bfloat16; fp16 in graphs.

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
