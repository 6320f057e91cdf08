#pragma once

// A rank's GPU as comm/nccl uses it. Failures of CUDA throw CommError.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>

#include "mlbench/base/buffer.h"
#include "mlbench/base/errors.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::nccl_backend {

inline void check(cudaError_t code, const char* function) {
  if (code != cudaSuccess) throw CommError(fmt::format("{}: {}", function, cudaGetErrorString(code)));
}

// The number of the rank's GPU. Where a host has more ranks than GPUs, ranks share a number here; nccl_backend::make()
// refuses that and names their numbers.
inline int gpu_of(const CommOptions& options) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return options.local_rank % count;
}

// The GPU, a stream of its own, and how long an operation on that stream may take.
struct Gpu {
  explicit Gpu(int number, std::chrono::milliseconds patience) : device(number), timeout(patience) {
    use();
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
  }
  // From now on, the calling thread uses this GPU.
  void use() const { check(cudaSetDevice(device), "cudaSetDevice"); }

  int device;
  std::chrono::milliseconds timeout;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

// A buffer where NCCL can reach it: the buffer itself, or a copy on the GPU.
class OnGpu {
 public:
  OnGpu(Gpu& gpu, const ConstBufferView& buffer, bool with_content) : gpu_(gpu), bytes_(buffer.size_bytes()) {
    if (buffer.stream.device.kind == Device::Kind::kCuda) {
      data_ = const_cast<void*>(buffer.data);
      // What the buffer's own stream has begun comes first.
      check(cudaEventRecord(gpu.event, static_cast<cudaStream_t>(buffer.stream.handle)), "cudaEventRecord");
      check(cudaStreamWaitEvent(gpu.stream, gpu.event, 0), "cudaStreamWaitEvent");
      return;
    }
    copied_ = true;
    if (bytes_ == 0) return;
    check(cudaMallocAsync(&data_, bytes_, gpu.stream), "cudaMallocAsync");
    if (with_content) copy(data_, buffer.data);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() {
    if (copied_ && data_ != nullptr) cudaFreeAsync(data_, gpu_.stream);
  }

  std::byte* at(size_t byte = 0) const { return static_cast<std::byte*>(data_) + byte; }
  // Enqueues the copy back to the host, where the buffer lies there.
  void copy_back(void* buffer) const {
    if (copied_ && bytes_ > 0) copy(buffer, data_);
  }

 private:
  void copy(void* to, const void* from) const {
    check(cudaMemcpyAsync(to, from, bytes_, cudaMemcpyDefault, gpu_.stream), "cudaMemcpyAsync");
  }

  Gpu& gpu_;
  size_t bytes_;
  void* data_ = nullptr;
  bool copied_ = false;
};

}  // namespace mlbench::comm::nccl_backend
