#pragma once

// The framework for models that are chains of layers: a tape (network.h), or task 2a's single layer (linear_rows.h).

#include <memory>

#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

// `options`: precision and device are known to be valid.
std::unique_ptr<Framework> make_tape_framework(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
