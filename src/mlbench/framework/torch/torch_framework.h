#pragma once

// LibTorch on the CPU, or on a GPU (placement.h).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::torch_framework {

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

}  // namespace mlbench::framework::torch_framework
