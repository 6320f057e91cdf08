#pragma once

// LibTorch on the CPU.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::torch_framework {

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

// Environment variables that a rank is to be started with. LibTorch's OpenMP library reads them once, while the process
// is loaded: setting them in main() is too late. `passive_wait`: more threads than cores, so idle ones sleep at once.
std::vector<std::pair<std::string, std::string>> environment(bool passive_wait);

}  // namespace mlbench::framework::torch_framework
