#pragma once

// One layer of an LSTM over sequences of one length on an NVIDIA GPU, computed by cuDNN, which LibTorch calls.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mlbench/framework/tensors/lstm.h"

namespace mlbench::framework::torch_framework {

// One forward pass and, at most once, its backward pass. All tensors but the weights have the type of `x`, to which
// factors of products are rounded; forward() rounds the weights itself.
class CudnnLstm {
 public:
  CudnnLstm(int64_t hidden, bool training) : hidden_(hidden), training_(training) {}

  // Computes the layer for `x`, [T, B, in], from `state` and `cells`, [B, H], the state before the first position.
  void forward(const at::Tensor& x, const LstmWeights& weights, const at::Tensor& state, const at::Tensor& cells);
  at::Tensor output() const { return output_; }                     // [T, B, H]
  at::Tensor last_state() const { return last_state_.squeeze(0); }  // [B, H]
  at::Tensor last_cells() const { return last_cells_.squeeze(0); }

  struct Gradients {
    at::Tensor input;                 // undefined where `input_wanted` is false
    std::vector<at::Tensor> weights;  // of ih, hh, bias_ih and bias_hh, in this order
  };
  Gradients backward(const at::Tensor& d_output, bool input_wanted);

 private:
  int64_t hidden_;
  bool training_;
  at::Tensor x_, state_, cells_;     // [T, B, in], [1, B, H], [1, B, H]
  std::vector<at::Tensor> weights_;  // views of packed_
  at::Tensor packed_, output_, last_state_, last_cells_, reserve_;
};

}  // namespace mlbench::framework::torch_framework
