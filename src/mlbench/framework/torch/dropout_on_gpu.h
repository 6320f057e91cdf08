#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework::torch_framework {

// The mask of dropout_mask() (framework/tensors/dropout.h), bit for bit, made by the GPU `device`: float32 of this
// shape.
at::Tensor dropout_mask_on_gpu(uint64_t key, double p, at::IntArrayRef shape, const at::Device& device);

}  // namespace mlbench::framework::torch_framework
