#pragma once

// The framework for models that are graphs, over tokens (graph_network.h).

#include <memory>

#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

// `options`: precision and device are known to be valid.
std::unique_ptr<Framework> make_graph_framework(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
