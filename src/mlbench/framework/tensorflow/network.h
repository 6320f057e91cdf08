#pragma once

// A chain of layers as a TensorFlow graph, and its passes. A forward pass is one run of the session, and a backward
// pass is another one: what the backward pass needs of the forward pass is fetched by the one and fed to the other,
// without a copy. With one inter-op thread the operations run one layer after the other, in the caller's thread.

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

// A layer in one direction, of which the listener learns when it is done.
struct LayerNote {
  std::string label;
  LayerPass pass = LayerPass::kForward;
  std::vector<const FlatRange*> gradients;  // where the gradients belong that come with it
};

// What a batch feeds. The memory must live until the backward pass.
struct NetworkBatch {
  const float* features;  // [samples, ...] in the neutral order
  const int64_t* labels;  // [samples]
  int64_t samples = 0;
};

class Network {
 public:
  // `layout`, the flat buffers `parameters` and `buffers` and `listener` must outlive the network. Throws UserError for
  // a layer or a loss that this framework lacks.
  Network(const FrameworkOptions& options, const FlatLayout& layout, float* parameters, float* buffers,
          LayerListener& listener);

  // Writes the mask of layer number `layer` of its chain.
  using DrawMask = std::function<void(size_t layer, double p, std::span<float> mask)>;
  // A training pass averages the batch's statistics into the buffers.
  void forward(const NetworkBatch& batch, bool training, const DrawMask& draw);
  // Precondition: the last pass was forward() with `training`. Computes the gradients of `scale` times the sum of
  // losses and hands them to the listener.
  void backward(float scale);

  // Of the last forward pass, valid until the next one.
  std::span<const float> logits() const { return values_of(kept_[0]); }
  std::span<const float> losses() const { return values_of(kept_[1]); }
  const std::vector<LayerNote>& notes() const { return notes_; }  // by the number that the listener is given

 private:
  // A placeholder of the graph, and what runs feed it with.
  struct Fed {
    Output input = {nullptr, 0};
    Tensor tensor;
  };
  struct Mask : Fed {
    size_t layer = 0;
    double p = 0;
    std::vector<int64_t> shape;  // of one sample
    std::vector<float> values;
  };
  // Running statistics, and which of the fetched values are averaged into them: the mean, and the variance behind it.
  struct Statistics {
    const FlatRange *mean, *variance;
    float momentum = 0;
    size_t fetched = 0;
  };
  struct Run {
    std::vector<Output> inputs, fetches;
    std::vector<const Tensor*> sources;  // of the inputs
    std::vector<TF_Operation*> targets;

    void add_input(Output input, const Tensor& source);
  };
  struct BuiltChain {
    Output output;
    const std::vector<models::LayerSpec>& specs;
    std::vector<BuiltLayer> layers;
  };

  static std::span<const float> values_of(const Tensor& tensor);
  const FlatRange& range_named(const std::string& name) const;
  Output value_of(const std::string& name, Run& run);
  LayerContext context_for(Run& run, bool training);
  BuiltChain build_pass(Run& run, bool training, Output* loss_gradient);
  BuiltChain build_chain(const std::vector<models::LayerSpec>& specs, Output x, std::vector<int64_t> shape,
                         const LayerContext& context);
  BuiltLayer build_residual(const LayerInput& input, const LayerContext& context);
  void build_backward(const BuiltChain& chain, Output loss_gradient);
  Output build_chain_backward(const BuiltChain& chain, Output dy, bool input_wanted);
  void feed_backward(const std::vector<TF_Operation*>& forward);
  // `x`, which the operations of the next layer get when the layer before is done.
  Output after_last_layer(Output x);
  void note_done(const models::LayerSpec& layer, LayerPass pass, const LayerGradients& gradients, Output output);
  std::vector<Tensor> run(const Run& run);
  void average_statistics();

  const models::ModelDescription model_;
  const bool dropout_, frozen_batch_norm_, ordered_;
  const FlatLayout& layout_;
  float* const parameters_;
  float* const buffers_;
  LayerListener& listener_;
  Graph graph_;
  std::vector<LayerNote> notes_;
  std::map<std::string, Fed> values_;  // by the name of the parameter or buffer
  Fed features_, labels_, scale_;
  std::deque<Mask> masks_;
  std::vector<Statistics> statistics_;
  Run evaluation_, training_, backward_;
  std::vector<TF_Operation*> last_;  // tells that the layer that was built last is done; empty without an order
  std::unique_ptr<Session> session_;
  std::vector<Tensor> kept_;  // what the last forward pass fetched: logits, losses, then what training needs
};

}  // namespace mlbench::framework::tensorflow_framework
