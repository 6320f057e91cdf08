#pragma once

#include <ATen/ATen.h>

#include "mlbench/base/buffer.h"
#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

// The framework's flat buffers: float32, with the same layout, in the same memory.
struct FlatTensors {
  at::Tensor parameters;
  at::Tensor gradients;
};

// Tensors over the buffers that a framework hands out, without a copy. The buffers must outlive the tensors.
FlatTensors flat_tensors(const BufferView& parameters, const BufferView& gradients);

// The options for tensors that are kept beside the flat buffers; null: in the host's memory.
at::TensorOptions options_beside(const SeparateMemory* memory);

}  // namespace mlbench::optim
