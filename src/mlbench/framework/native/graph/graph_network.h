#pragma once

// A model over tokens, which is a graph. Its layers run in order and back, with the loss over tokens fused with the
// last one. The gradient of a value that several layers take is the sum of theirs. Autograd is not used.

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
  // Copies the model's description; the gradient buffer must outlive the network. Throws UserError for a layer or loss
  // that this framework lacks.
  explicit GraphNetwork(const GraphContext& context);
  GraphNetwork(const GraphNetwork&) = delete;
  GraphNetwork& operator=(const GraphNetwork&) = delete;

  // Runs the model on `batch`. `pass` must be without states: training passes and evaluations carry separate states,
  // which the network keeps.
  void forward(const BatchView& batch, GraphPass pass);
  const MetricSums& sums() const { return sums_; }
  double mean_loss() const;  // with the model's penalties
  // Computes the gradients of `scale` times the mean loss, and stores them in the gradient buffer's slots.
  // Precondition: the buffer's begin() was called.
  void backward(double scale);

  // carried_state() has the states in which the last training batch ended, back to back. set_carried_state() sets those
  // from which the next training batch goes on.
  std::vector<float> carried_state() const;
  void set_carried_state(std::span<const float> state, int64_t sequences);

  // Encodes `sources` for a decoder, which the network must outlive.
  EncodedSources encode(const BatchView& sources);

  void on_layer(const Clock& clock, Framework::LayerDone done);  // as Framework::on_layer
  std::vector<std::string> fused() const;  // names of the layers that are computed as one, for the record

 private:
  using Values = std::map<std::string, GraphValue>;

  void run(GraphStep& step, Values& values, const GraphPass& pass);
  at::Tensor decode(const at::Tensor& tokens, const Values& encoded, DecodePass& pass);

  models::ModelDescription model_;
  std::vector<GraphStep> steps_;  // all layers but the last
  GraphOrder order_;
  std::optional<TokenLoss> loss_;
  std::string loss_name_;
  std::vector<LayerState> carried_, evaluated_;
  const Clock* clock_ = nullptr;
  Framework::LayerDone done_;

  // Results of the last forward pass.
  MetricSums sums_;
  double penalty_ = 0;
};

}  // namespace mlbench::framework::native_framework
