#pragma once

// Where the network computes, which is also where the flat buffers are. On the CPU, that is the host's memory, which
// optimizer, exchange and checkpoints read directly. A GPU has memory of its own, in which parameters, gradients and
// running statistics stay, and to which batches are copied. The device "mirror" is the CPU treated like a GPU; tests of
// that path run on it.

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "mlbench/base/separate_memory.h"

namespace mlbench::framework::torch_framework {

class Placement {
 public:
  // `device` is cpu, cuda (the GPU with number `local_rank`) or mirror. `precision` is float32, tf32, bf16 or fp16.
  // Throws UserError, with the reason, where there is no such device, and for tf32 on the CPU. On a GPU, sets
  // LibTorch's global switches for TF32.
  Placement(const std::string& device, int local_rank, const std::string& precision);

  SeparateMemory* memory() { return memory_.get(); }  // null: the host's memory
  bool separate() const { return memory_ != nullptr; }
  std::string name() const;  // for the record: "cpu", "cuda:0"
  const at::Device& device() const { return device_; }

  // A flat float32 tensor of zeros, on the device.
  at::Tensor make_flat(int64_t elements) const;
  // Brings a tensor of a batch, `host`, to the device, and counts its bytes. On the CPU it is the same tensor.
  at::Tensor bring(const at::Tensor& host);
  // Waits until the device has finished all work.
  void synchronize() const;

 private:
  at::Device device_ = at::kCPU;
  std::unique_ptr<SeparateMemory> memory_;
};

}  // namespace mlbench::framework::torch_framework
