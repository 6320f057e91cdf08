#pragma once

// A model over tokens, which is a graph, and its passes. One TensorFlow graph serves batches of any length. The last
// layer is computed together with the loss.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/tensorflow/passes.h"
#include "mlbench/framework/tensors/layer_state.h"

namespace mlbench::framework::tensorflow_framework {

class SequenceNetwork : public Passes {
 public:
  // Throws UserError for a layer or a loss that this framework lacks.
  explicit SequenceNetwork(const NetworkContext& context);

  // With BatchView::continues, carried states go on from the batch before. Training passes and evaluations carry
  // separate states. The batch's memory must live until the backward pass.
  void forward(const BatchView& batch, bool training, const DrawMask& draw);
  const MetricSums& sums() const { return sums_; }
  double mean_loss() const { return sums_.loss / static_cast<double>(sums_.weight) + penalty_; }
  // Precondition: the last pass was forward() with `training`. Computes the gradients of `scale` times the mean loss,
  // and hands them to the listener.
  void backward(double scale);

  // The states in which the last training batch ended, and from which the next one goes on, as
  // Framework::carried_state() has them.
  std::vector<float> carried_state() const { return framework::values_of(trained_.states); }
  void set_carried_state(std::span<const float> state, int64_t sequences);

 private:
  using Shape = std::vector<int64_t>;
  // Where the states of one layer enter the graph, and which of the fetched values they are in the end: those of the
  // hidden units, and those of the cells behind them.
  struct StatePlace {
    Fed hidden, cells;
    LayerState start;  // what the pass began with, until its backward pass
    size_t layer = 0;
    size_t fetched = 0;
  };
  struct Carried {
    std::deque<StatePlace> places;
    std::vector<LayerState> states;  // by layer
  };
  struct BuiltPass {
    std::vector<BuiltLayer> layers;                    // all but the last
    std::function<LayerGradients(Output scale)> last;  // from the factor of the sum of losses
  };

  BuiltPass build_pass(Run& run, bool training, Carried& carried);
  LayerContext graph_context(Run& run, bool training, Carried& carried);
  std::function<LayerGradients(Output scale)> build_loss(Run& run, Output hidden);
  void build_backward(const BuiltPass& pass);
  std::vector<Shape> input_shapes(const models::LayerSpec& layer) const;
  void feed_batch(const BatchView& batch);
  void feed_states(Carried& carried);
  void keep_states(Carried& carried) const;

  std::map<std::string, Fed> inputs_;    // tensors of the batch, the targets among them
  std::map<std::string, Shape> shapes_;  // of the values of the last batch
  Fed loss_scale_, penalty_scale_;
  Carried trained_, evaluated_;
  size_t penalties_ = 0;  // the first of the fetched values that are penalties
  MetricSums sums_;
  double penalty_ = 0;
};

}  // namespace mlbench::framework::tensorflow_framework
