#pragma once

// What the networks of this framework share: a TensorFlow graph and its passes. A forward pass is one run of the
// session, and a backward pass is another one: what the backward pass needs of the forward pass is fetched by the one
// and fed to the other, without a copy. With one inter-op thread the operations run one layer after the other, in the
// caller's thread.

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensorflow/layer_done.h"
#include "mlbench/framework/tensorflow/layers.h"

namespace mlbench::framework::tensorflow_framework {

// What a network is built for. All but `options` must outlive the network.
struct NetworkContext {
  const FrameworkOptions& options;
  const FlatLayout& layout;
  float *parameters, *buffers;  // flat
  LayerListener& listener;
  std::function<size_t(const std::string& parameter)> slot;  // of the parameter's gradient; asked once for each use
};

// A layer in one direction, of which the listener learns when it is done.
struct LayerNote {
  std::string label;
  LayerPass pass = LayerPass::kForward;
  std::vector<size_t> slots;  // where the gradients belong that come with it
};

class Passes {
 public:
  // Writes the mask of layer number `layer` of its chain or graph.
  using DrawMask = std::function<void(size_t layer, double p, std::span<float> mask)>;

  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;
  const std::vector<LayerNote>& notes() const { return notes_; }  // by the number that the listener is given

 protected:
  // A placeholder of the graph, and what runs feed it with.
  struct Fed {
    Output input = {nullptr, 0};
    Tensor tensor;
  };
  struct Mask : Fed {
    size_t layer = 0;
    double p = 0;
    std::function<std::vector<int64_t>()> shape;  // for the batch of the pass that begins
    at::Tensor values;
  };
  struct Run {
    std::vector<Output> inputs, fetches;
    std::vector<const Tensor*> sources;  // of the inputs
    std::vector<TF_Operation*> targets;

    void add_input(Output input, const Tensor& source);
    void feed(const Fed& fed) { add_input(fed.input, fed.tensor); }
  };

  explicit Passes(const NetworkContext& context);
  ~Passes() = default;

  std::vector<Tensor> run(const Run& run);
  static std::span<const float> values_of(const Tensor& tensor);
  const FlatRange& range_named(const std::string& name) const;
  // The value of a parameter or buffer, which `run` feeds.
  Output value_of(const std::string& name, Run& run);
  // Feeds `run` with all parameters and buffers that the graph has by now.
  void feed_values(Run& run) const;
  // What layers ask of the network, except masks and statistics.
  LayerContext context_for(Run& run, bool training);
  // A mask that `run` feeds. `any` is its shape for all batches (-1: any extent); `shape` is asked in each pass.
  Output mask_of(size_t layer, double p, const std::vector<int64_t>& any, std::function<std::vector<int64_t>()> shape,
                 Run& run);
  // `x`, which the operations of the next layer get when the layer before is done. The value is the layer's own: where
  // one input is computed from another, the gradient of the one has no part of the other's.
  Output after_last_layer(Output x);
  void note_done(const std::string& label, LayerPass pass, const LayerGradients& gradients,
                 const std::vector<Output>& outputs);
  // Begins the backward part of the graph. finish_backward() ends it, where the first `results` values that the forward
  // pass fetches are not for the backward pass alone.
  void begin_backward();
  void finish_backward(int threads, size_t results);

  // Runs the forward pass, whose fetched values are kept_.
  void run_forward(bool training, const DrawMask& draw);
  void run_backward();

  const models::ModelDescription model_;
  const FlatLayout& layout_;
  Graph graph_;
  Run evaluation_, training_, backward_;
  std::vector<Tensor> kept_;  // what the last forward pass fetched

 private:
  void feed_backward();

  const bool dropout_, frozen_batch_norm_;
  const int inter_op_threads_;
  float* const parameters_;
  float* const buffers_;
  LayerListener& listener_;
  const std::function<size_t(const std::string&)> slot_;
  std::vector<LayerNote> notes_;
  std::map<std::string, Fed> values_;  // by the name of the parameter or buffer
  std::deque<Mask> masks_;
  std::vector<TF_Operation*> forward_;  // the operations of the graph's forward part
  std::vector<TF_Operation*> last_;     // tells that the layer that was built last is done; empty without an order
  size_t results_ = 0;
  std::unique_ptr<Session> session_;
};

// A tensor over floats that must outlive it.
Tensor alias_of_floats(const std::vector<int64_t>& shape, const float* values);

}  // namespace mlbench::framework::tensorflow_framework
