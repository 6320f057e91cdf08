#pragma once

// A model that is a graph, over tokens: runs its layers in order and back, with the loss over tokens fused to the last
// one. Gradients of values that several layers take are added up; no tensor is one of autograd's.

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/graph/graph_layers.h"
#include "mlbench/framework/tensors/graph_order.h"
#include "mlbench/framework/tensors/token_loss.h"

namespace mlbench::framework::native_framework {

class GraphNetwork {
 public:
  // Copies the description; the gradient buffer outlives it. UserError for a layer or loss that this framework lacks.
  explicit GraphNetwork(const GraphContext& context);
  GraphNetwork(const GraphNetwork&) = delete;
  GraphNetwork& operator=(const GraphNetwork&) = delete;

  // `pass`: without states. Training passes and evaluations carry states of their own.
  void forward(const BatchView& batch, GraphPass pass);
  const MetricSums& sums() const { return sums_; }
  double mean_loss() const;  // with penalties
  // Gradients of `scale` times the mean loss, into the slots of the gradient buffer, which has begun.
  void backward(double scale);

  // Of the training passes: states in which the last batch ended, back to back; and from where the next one goes on.
  std::vector<float> carried_state() const;
  void set_carried_state(std::span<const float> state, int64_t sequences);

  // For a decoder, which this outlives.
  EncodedSources encode(const BatchView& sources);

  void on_layer(const Clock& clock, Framework::LayerDone done);
  std::vector<std::string> fused() const;  // what is computed as one, for the record

 private:
  using Values = std::map<std::string, GraphValue>;

  void run(GraphStep& step, Values& values, const GraphPass& pass);
  Values inputs_of(const BatchView& batch) const;
  GraphValue tokens_of(const BatchView& batch, const BatchTensor& tensor) const;
  at::Tensor decode(const at::Tensor& tokens, const Values& encoded, DecodePass& pass);

  models::ModelDescription model_;
  std::vector<GraphStep> steps_;  // all layers but the last
  GraphOrder order_;
  std::optional<TokenLoss> loss_;
  std::string loss_name_;
  std::vector<LayerState> carried_, evaluated_;
  const Clock* clock_ = nullptr;
  Framework::LayerDone done_;

  // Of the last forward pass.
  MetricSums sums_;
  double penalty_ = 0;
};

}  // namespace mlbench::framework::native_framework
