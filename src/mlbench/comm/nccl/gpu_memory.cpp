#include "mlbench/comm/nccl/gpu_memory.h"

#include "mlbench/comm/nccl/gpu.h"
#include "mlbench/comm/nccl/nccl.h"

namespace mlbench::comm::nccl_backend {

namespace {

class GpuMemory final : public Memory {
 public:
  explicit GpuMemory(const CommOptions& options) : gpu_(gpu_of(options), options.timeout) {}

  Stream stream() const override { return {{Device::Kind::kCuda, gpu_.device}, gpu_.stream}; }

  // cudaMalloc aligns to 256 bytes.
  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    gpu_.use();
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return {static_cast<std::byte*>(memory), [](std::byte* address) { cudaFree(address); }};
  }

  void fill(std::byte* to, std::byte value, size_t bytes) override {
    gpu_.use();
    check(cudaMemsetAsync(to, static_cast<int>(value), bytes, gpu_.stream), "cudaMemsetAsync");
    synchronize();
  }
  void write(std::byte* to, const std::byte* host, size_t bytes) override { copy_now(to, host, bytes); }
  void read(std::byte* host, const std::byte* from, size_t bytes) override { copy_now(host, from, bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    gpu_.use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu_.stream), "cudaMemcpyAsync");
  }
  void synchronize() override { check(cudaStreamSynchronize(gpu_.stream), "cudaStreamSynchronize"); }

 private:
  void copy_now(void* to, const void* from, size_t bytes) {
    gpu_.use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu_.stream), "cudaMemcpyAsync");
    synchronize();
  }

  Gpu gpu_;
};

}  // namespace

std::unique_ptr<Memory> make_memory(const CommOptions& options) {
  if (const Availability here = available(); !here.available) throw UserError("buffers on a GPU: " + here.reason);
  return std::make_unique<GpuMemory>(options);
}

}  // namespace mlbench::comm::nccl_backend
