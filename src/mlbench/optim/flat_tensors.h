#pragma once

#include <ATen/ATen.h>

namespace mlbench::optim {

// The flat buffers of the framework, float32, same layout.
struct FlatTensors {
  at::Tensor parameters;
  at::Tensor gradients;
};

}  // namespace mlbench::optim
