#pragma once

// Where the network computes, and with it where the flat buffers lie. On the CPU that is the host's memory, which
// optimizer, exchange and checkpoints read as it is. A GPU has memory of its own, in which parameters, gradients and
// running statistics stay: batches come to them. "mirror" is the CPU treated like a GPU: the tests of that path run on
// it.

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "mlbench/base/separate_memory.h"

namespace mlbench::framework::torch_framework {

class Placement {
 public:
  // `device`: cpu | cuda (that of number `local_rank`) | mirror. `precision`: float32 | tf32 | bf16 | fp16. UserError
  // where either cannot be had, with the reason.
  Placement(const std::string& device, int local_rank, const std::string& precision);

  SeparateMemory* memory() { return memory_.get(); }  // null: the host's
  bool separate() const { return memory_ != nullptr; }
  std::string name() const;  // for the record: "cpu", "cuda:0"
  const at::Device& device() const { return device_; }

  // Zeros, where the network computes.
  at::Tensor make_flat(int64_t elements) const;
  // A tensor of a batch where the network can read it. On the CPU it is the same tensor.
  at::Tensor bring(const at::Tensor& host);
  // The host waits for what the device still does.
  void synchronize() const;

 private:
  at::Device device_ = at::kCPU;
  std::unique_ptr<SeparateMemory> memory_;
};

}  // namespace mlbench::framework::torch_framework
