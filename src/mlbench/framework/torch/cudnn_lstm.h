#pragma once

// One layer of an LSTM over sequences of one length, by cuDNN, which LibTorch calls. On an NVIDIA GPU.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mlbench/framework/tensors/lstm.h"

namespace mlbench::framework::torch_framework {

// A forward pass and, once, its backward pass. Everything in the type of x, which is that of the products.
class CudnnLstm {
 public:
  CudnnLstm(int64_t hidden, bool training) : hidden_(hidden), training_(training) {}

  // x [T, B, in]; the state before it [B, H].
  void forward(const at::Tensor& x, const LstmWeights& weights, const at::Tensor& state, const at::Tensor& cells);
  at::Tensor output() const { return output_; }                     // [T, B, H]
  at::Tensor last_state() const { return last_state_.squeeze(0); }  // [B, H]
  at::Tensor last_cells() const { return last_cells_.squeeze(0); }

  struct Gradients {
    at::Tensor input;                 // undefined where it is not wanted
    std::vector<at::Tensor> weights;  // ih, hh, bias_ih, bias_hh
  };
  Gradients backward(const at::Tensor& d_output, bool input_wanted);

 private:
  int64_t hidden_;
  bool training_;
  at::Tensor x_, state_, cells_;     // [T, B, in], [1, B, H]
  std::vector<at::Tensor> weights_;  // views of packed_
  at::Tensor packed_, output_, last_state_, last_cells_, reserve_;
};

}  // namespace mlbench::framework::torch_framework
