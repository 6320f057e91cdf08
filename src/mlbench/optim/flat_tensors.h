#pragma once

#include <ATen/ATen.h>

#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

// The flat buffers of the framework, float32, same layout, in the same memory.
struct FlatTensors {
  at::Tensor parameters;
  at::Tensor gradients;
};

// How what is kept beside them is made; null: in the host's memory.
at::TensorOptions options_beside(const SeparateMemory* memory);

}  // namespace mlbench::optim
