#include "mlbench/framework/torch/cudnn_lstm.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <tuple>

namespace mlbench::framework::torch_framework {

namespace {

// The arguments with which LibTorch calls cuDNN for one layer of one direction.
constexpr int64_t kWeights = 4, kLstm = 2, kNoProjection = 0, kOneLayer = 1;
constexpr bool kBatchFirst = false, kBidirectional = false;

}  // namespace

void CudnnLstm::forward(const at::Tensor& x, const LstmWeights& weights, const at::Tensor& state,
                        const at::Tensor& cells) {
  const at::NoGradGuard nothing_to_differentiate;
  x_ = x.contiguous();
  state_ = state.unsqueeze(0).contiguous();
  cells_ = cells.unsqueeze(0).contiguous();
  weights_.clear();
  for (const at::Tensor& one : {weights.ih, weights.hh, weights.bias_ih, weights.bias_hh}) {
    weights_.push_back(one.detach().to(x.options(), /*non_blocking=*/false, /*copy=*/true));
  }
  // cuDNN wants all weights in one piece: this call makes it, and turns each weight into a view of it.
  packed_ = at::_cudnn_rnn_flatten_weight(weights_, kWeights, x.size(2), kLstm, hidden_, kNoProjection, kOneLayer,
                                          kBatchFirst, kBidirectional);
  std::tie(output_, last_state_, last_cells_, reserve_, std::ignore) =
      at::_cudnn_rnn(x_, weights_, kWeights, packed_, state_, cells_, kLstm, hidden_, kNoProjection, kOneLayer,
                     kBatchFirst, /*dropout=*/0, training_, kBidirectional, {}, {});
}

CudnnLstm::Gradients CudnnLstm::backward(const at::Tensor& d_output, bool input_wanted) {
  const at::NoGradGuard nothing_to_differentiate;
  Gradients gradients;
  // No gradient of the start is wanted. cuDNN computes the gradient of the input before those of the weights, so it is
  // always asked for.
  std::tie(gradients.input, std::ignore, std::ignore, gradients.weights) =
      at::_cudnn_rnn_backward(x_, weights_, kWeights, packed_, state_, cells_, output_, d_output.contiguous(), {}, {},
                              kLstm, hidden_, kNoProjection, kOneLayer, kBatchFirst, /*dropout=*/0, training_,
                              kBidirectional, {}, {}, reserve_, std::array<bool, 4>{true, false, false, true});
  if (!input_wanted) gradients.input = at::Tensor();
  return gradients;
}

}  // namespace mlbench::framework::torch_framework
