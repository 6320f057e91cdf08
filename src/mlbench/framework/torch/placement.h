#pragma once

// Where the network computes. On the CPU it works in the host's flat buffers, those that the optimizer, the exchange
// and checkpoints see. On a GPU it has copies of its own: parameters and running statistics go there before each
// forward pass, gradients and statistics come back after the backward pass, all through pinned memory. "mirror" is the
// CPU treated like a GPU: the tests of that path run on it.

#include <ATen/ATen.h>

#include <string>

namespace mlbench::framework::torch_framework {

// One flat float32 buffer of the host and the network's own; on the CPU both are the same memory.
struct FlatBuffer {
  at::Tensor host, own;

  void upload() { copy(own, host); }
  void download() { copy(host, own); }  // returns when the host may read

 private:
  static void copy(at::Tensor& target, const at::Tensor& source) {
    if (!target.is_alias_of(source)) target.copy_(source);
  }
};

class Placement {
 public:
  // `device`: cpu | cuda (that of number `local_rank`) | mirror. `precision`: float32 | tf32 | bf16 | fp16. UserError
  // where either cannot be had, with the reason.
  Placement(const std::string& device, int local_rank, const std::string& precision);

  bool separate() const { return separate_; }  // the network has copies of its own
  std::string name() const;                    // for the record: "cpu", "cuda:0"
  const at::Device& device() const { return device_; }

  FlatBuffer make_flat(int64_t elements) const;
  FlatBuffer make_flat(const at::Tensor& host) const;
  // A tensor of the host where the network can read it. On the CPU it is the same tensor.
  at::Tensor bring(const at::Tensor& host) const;

 private:
  at::Device device_ = at::kCPU;
  bool separate_ = false;
};

}  // namespace mlbench::framework::torch_framework
