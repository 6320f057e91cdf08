#pragma once

// A model that is a graph, over tokens: runs its layers in order, with the loss over tokens fused to the last one.

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/graph_order.h"
#include "mlbench/framework/tensors/token_loss.h"
#include "mlbench/framework/torch/graph_operations.h"

namespace mlbench::framework::torch_framework {

class SequenceModel {
 public:
  using Values = std::map<std::string, at::Tensor>;  // by name; on the network's device

  // Copies the description; the gradient buffer and the times that `context` refers to outlive it.
  explicit SequenceModel(const BuildContext& context);
  SequenceModel(const SequenceModel&) = delete;
  SequenceModel& operator=(const SequenceModel&) = delete;

  // Of a whole batch: its tensors, and whether the carried states go on. Training passes and evaluations carry states
  // of their own.
  void forward(const Values& batch, const Pass& pass, bool continues);
  const MetricSums& sums() const { return sums_; }
  double mean_loss() const;  // with penalties
  // Gradients of `scale` times the mean loss, into the slots of the gradient buffer, which has begun.
  void backward(double scale);

  // Of the training passes: states in which the last batch ended, back to back; and from where the next one goes on.
  std::vector<float> carried_state() const;
  void set_carried_state(std::span<const float> state, int64_t sequences, const at::Device& device);

  static std::vector<std::string> kernels(at::ScalarType product_type, const at::Device& device);  // for the record

  // ---- for a decoder
  // What the layers that do not depend on the decoder's input yield, as far as others take it.
  Values encode(const Values& sources) const;
  // EncodedSources::step; `encoded` is read at position 0 alone.
  at::Tensor decode(const at::Tensor& tokens, const Values& encoded, DecodePass& pass) const;
  size_t steps() const { return steps_.size(); }

 private:
  struct Step {
    const models::LayerSpec* layer = nullptr;
    GraphOperation operation;
    LayerTimes::Name name = nullptr;
  };

  at::Tensor run(const Step& step, Values& values, GraphPass& pass) const;

  models::ModelDescription model_;
  std::vector<Step> steps_;  // all layers but the last
  std::optional<TokenLoss> loss_;
  LayerTimes& times_;
  GraphOrder order_;  // of steps_
  LayerTimes::Name loss_name_;
  std::vector<LayerState> carried_, evaluated_;

  // Of the last forward pass.
  at::Tensor hidden_, penalty_;
  MetricSums sums_;
  double penalty_value_ = 0;
};

}  // namespace mlbench::framework::torch_framework
