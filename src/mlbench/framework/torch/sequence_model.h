#pragma once

// A model over tokens, which is a graph. Its layers run in order, with the loss over tokens fused with the last one.

#include <ATen/ATen.h>

#include <map>
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
  using Values = std::map<std::string, GraphValue>;  // by name; the tensors are on the network's device

  // Copies the model's description. The gradient buffer and the times to which `context` refers must outlive the model.
  explicit SequenceModel(const BuildContext& context);
  SequenceModel(const SequenceModel&) = delete;
  SequenceModel& operator=(const SequenceModel&) = delete;

  // Runs the model on the inputs of a batch. `targets` are the loss's, with padding. With `continues`, carried states
  // go on from the batch before. Training passes and evaluations carry separate states.
  void forward(const Values& inputs, const at::Tensor& targets, const Pass& pass, bool continues);
  const MetricSums& sums() const { return sums_; }
  double mean_loss() const;  // with the model's penalties
  // Computes the gradients of `scale` times the mean loss, and stores them in the gradient buffer's slots.
  // Precondition: the buffer's begin() was called.
  void backward(double scale);

  // carried_state() has the states in which the last training batch ended, back to back, on the host.
  // set_carried_state() sets those from which the next training batch goes on.
  std::vector<float> carried_state() const;
  void set_carried_state(std::span<const float> state, int64_t sequences, const at::Device& device);

  // For the record: the fused layers, and the library whose products are used.
  static std::vector<std::string> kernels(at::ScalarType product_type, const at::Device& device);

  // ---- for a decoder
  // Encodes `sources`: runs the layers that do not depend on the decoder's input, and returns those of their values
  // that the other layers take.
  Values encode(const Values& sources) const;
  // EncodedSources::step. `encoded` is read at position 0 alone; later it may be empty.
  at::Tensor decode(const at::Tensor& tokens, const Values& encoded, DecodePass& pass) const;
  size_t steps() const { return steps_.size(); }

 private:
  struct Step {
    const models::LayerSpec* layer = nullptr;
    GraphOperation operation;
    LayerTimes::Name name = nullptr;
  };

  GraphValue run(const Step& step, Values& values, GraphPass& pass) const;

  models::ModelDescription model_;
  std::vector<Step> steps_;  // all layers but the last
  std::optional<TokenLoss> loss_;
  LayerTimes& times_;
  GraphOrder order_;  // tells when values of `steps_` may be freed
  LayerTimes::Name loss_name_;
  std::vector<LayerState> carried_, evaluated_;

  // Results of the last forward pass.
  at::Tensor hidden_, penalty_;
  MetricSums sums_;
  double penalty_value_ = 0;
};

}  // namespace mlbench::framework::torch_framework
