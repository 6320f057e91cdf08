#pragma once

// The framework `native`: this project's own kernels on the CPU, with oneDNN's convolutions. For chains of layers
// (tape/), activations keep blocked layouts from the input to the loss, and chunks of samples stay in a core's cache
// from one operation to the next. Models over tokens are graphs (graph/). The precisions are float32; bf16 where the
// CPU multiplies bfloat16; and fp16 for graphs.

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
