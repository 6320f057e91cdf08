#pragma once

// The framework `tensorflow`: TensorFlow's kernels and gradients on the CPU, by its plain C API. The graph is built
// from the neutral description (network.h), and parameters are the flat buffers themselves. Random numbers are none of
// TensorFlow's.

#include <memory>
#include <string_view>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::tensorflow_framework {

inline constexpr std::string_view kPrecisions[] = {"float32"};
inline constexpr std::string_view kDevices[] = {"cpu"};
// The kinds of layers (models/layer_kinds.h) that it has.
std::vector<std::string_view> layers();

Availability available();
std::unique_ptr<Framework> make(const FrameworkOptions& options);

}  // namespace mlbench::framework::tensorflow_framework
