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
#include "mlbench/framework/tensors/sequence_decoder.h"

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

  // Encodes `sources` for a decoder, which the network must outlive.
  EncodedSources encode(const BatchView& sources);

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
    std::map<std::string, Output> values;              // those of the batch, and of all layers but the last
    std::vector<BuiltLayer> layers;                    // all but the last
    std::function<LayerGradients(Output scale)> last;  // from the factor of the sum of losses
  };

  // The passes of a decoder. `encode` fetches what `memory` is fed with in each step. A step fetches the log
  // probabilities, behind them what `rows` is fed with in the next one, and last the weights of attention, where a
  // layer tells them.
  struct Decoding {
    Run encode, step;
    Fed position;
    std::deque<Fed> memory;         // made from the sources
    std::deque<Fed> rows;           // keys and values of the positions so far, and states of LSTMs
    std::vector<Shape> row_shapes;  // of one row of `rows` before the first step
    Output attention = {nullptr, 0};
  };

  BuiltPass build_pass(Run& run, bool training, Carried& carried);
  LayerContext graph_context(Run& run, bool training, Carried& carried);
  std::function<LayerGradients(Output scale)> build_loss(Run& run, Output hidden);
  Output logits_of(Run& run, Output rows);
  Output rows_of(Output hidden);
  // A step has parts of its own in the graph, behind the encoder's values of the evaluation.
  void build_decoding(std::map<std::string, Output> values);
  DecodeContext decode_context();
  // What a step is fed with from the step before. `first` is the shape of one row before the first step, where 0 stands
  // for an extent that grows, and where all values are zero.
  Output rows_before(const Shape& first);
  void build_backward(const BuiltPass& pass);
  std::vector<Shape> input_shapes(const models::LayerSpec& layer) const;
  void feed_tensor(const std::string& name, const BatchTensor& tensor);
  void feed_batch(const BatchView& batch);
  void feed_states(Carried& carried);
  void keep_states(Carried& carried) const;
  // The log probabilities of the tokens that follow `tokens`, [rows, classes].
  at::Tensor decode(const at::Tensor& tokens, const std::vector<at::Tensor>& memory, DecodePass& pass);

  std::map<std::string, Fed> inputs_;    // tensors of the batch, the targets among them
  std::map<std::string, Shape> shapes_;  // of the values of the last batch
  Fed loss_scale_, penalty_scale_;
  Carried trained_, evaluated_;
  Decoding decoding_;     // of a model that writes sequences
  size_t penalties_ = 0;  // the first of the fetched values that are penalties
  MetricSums sums_;
  double penalty_ = 0;
};

}  // namespace mlbench::framework::tensorflow_framework
