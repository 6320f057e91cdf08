#pragma once

// The part of the framework `native` for models that are graphs over tokens (graph_network.h).

#include <memory>

#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

// Precondition: this framework has the precision and the device in `options`. Throws UserError for a layer or loss that
// this framework lacks, and for bf16 where the CPU cannot multiply bfloat16.
std::unique_ptr<Framework> make_graph_framework(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
