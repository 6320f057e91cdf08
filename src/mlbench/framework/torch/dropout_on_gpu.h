#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework::torch_framework {

// The mask of dropout_mask() (framework/tensors/dropout.h), bit for bit, as a float32 tensor of this shape that
// `device`, a GPU, computes. Fails MLBENCH_CHECK in a build without CUDA.
at::Tensor dropout_mask_on_gpu(uint64_t key, double p, at::IntArrayRef shape, const at::Device& device);

}  // namespace mlbench::framework::torch_framework
