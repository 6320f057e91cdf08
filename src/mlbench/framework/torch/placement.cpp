#include "mlbench/framework/torch/placement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/flat.h"

namespace mlbench::framework::torch_framework {

namespace {

at::Device find_gpu(int local_rank) {
  if (!at::globalContext().hasCUDA()) {
    throw UserError(
        "framework 'torch' has no GPU here: this LibTorch was built without CUDA, or there is no NVIDIA driver; leave "
        "out --gpu, or build against a PyTorch with CUDA (docs/gpu.md)");
  }
  const int gpus = torch::cuda::device_count();
  if (local_rank >= gpus) {
    throw UserError(fmt::format("each worker needs a GPU of its own: worker {} of this host finds {}; start at most {}",
                                local_rank, gpus, gpus));
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(local_rank)};
}

struct GpuMemory final : SeparateMemory {
  void to_host(const BufferView& from, void* to) override {
    at::from_blob(to, {from.count}, at::kFloat).copy_(flat_tensor(from));
  }
  void from_host(const void* from, const BufferView& to) override {
    flat_tensor(to).copy_(at::from_blob(const_cast<void*>(from), {to.count}, at::kFloat));
  }
};

}  // namespace

Placement::Placement(const std::string& device, int local_rank, const std::string& precision) {
  if (device == "cuda") {
    device_ = find_gpu(local_rank);
    memory_ = std::make_unique<GpuMemory>();
    // All work here goes to LibTorch's default stream, which is CUDA's own: null.
    memory_->stream.device = {Device::Kind::kCuda, local_rank};
    // By default, LibTorch's convolutions multiply in TF32. Here nothing is rounded unless the precision says so.
    at::globalContext().setAllowTF32CuDNN(precision == "tf32");
    at::globalContext().setAllowTF32CuBLAS(precision == "tf32");
  } else if (device == "mirror") {
    memory_ = std::make_unique<SeparateMemory>();
  } else if (device != "cpu") {
    throw UserError(fmt::format("framework 'torch' has no device '{}'; valid: cpu, cuda", device));
  }
  if (precision == "tf32" && !device_.is_cuda()) {
    throw UserError(
        "framework 'torch' has no precision 'tf32' here (tf32 is a format of NVIDIA GPUs, and this run is on the CPU); "
        "valid: float32, bf16, fp16");
  }
}

std::string Placement::name() const { return device_.str(); }

at::Tensor Placement::make_flat(int64_t elements) const {
  return at::zeros({elements}, at::TensorOptions(at::kFloat).device(device_));
}

at::Tensor Placement::bring(const at::Tensor& host) {
  if (!memory_) return host;
  memory_->batch_bytes += host.nbytes();
  if (!device_.is_cuda()) return host.clone();
  // A copy from pinned memory runs while the GPU still computes.
  return host.pin_memory().to(device_, /*non_blocking=*/true);
}

void Placement::synchronize() const {
  if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
}

}  // namespace mlbench::framework::torch_framework
