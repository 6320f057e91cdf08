// This file replaces dropout_on_gpu.cpp in builds without CUDA, whose LibTorch finds no GPU.

#include "mlbench/base/errors.h"
#include "mlbench/framework/torch/dropout_on_gpu.h"

namespace mlbench::framework::torch_framework {

at::Tensor dropout_mask_on_gpu(uint64_t, double, at::IntArrayRef, const at::Device& device) {
  MLBENCH_CHECK(false, "a mask for " + device.str() + " in a build without CUDA");
  return {};
}

}  // namespace mlbench::framework::torch_framework
