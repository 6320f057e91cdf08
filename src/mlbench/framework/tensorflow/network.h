#pragma once

// A chain of layers as a TensorFlow graph, and its passes.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mlbench/framework/tensorflow/passes.h"

namespace mlbench::framework::tensorflow_framework {

// What a batch feeds. The memory must live until the backward pass.
struct NetworkBatch {
  const float* features;  // [samples, ...] in the neutral order
  const int64_t* labels;  // [samples]
  int64_t samples = 0;
};

class Network : public Passes {
 public:
  // Throws UserError for a layer or a loss that this framework lacks.
  explicit Network(const NetworkContext& context);

  // A training pass averages the batch's statistics into the buffers.
  void forward(const NetworkBatch& batch, bool training, const DrawMask& draw);
  // Precondition: the last pass was forward() with `training`. Computes the gradients of `scale` times the mean of
  // losses and hands them to the listener.
  void backward(double scale);

  // The outputs of the last forward pass, valid until the next one.
  std::span<const float> logits() const { return values_of(kept_[0]); }
  std::span<const float> losses() const { return values_of(kept_[1]); }

 private:
  // Running statistics, and which of the fetched values are averaged into them: the mean, and the variance behind it.
  struct Statistics {
    const FlatRange *mean, *variance;
    float momentum = 0;
    size_t fetched = 0;
  };
  struct BuiltChain {
    Output output;
    const std::vector<models::LayerSpec>& specs;
    std::vector<BuiltLayer> layers;
  };

  LayerContext chain_context(Run& run, bool training);
  BuiltChain build_pass(Run& run, bool training, Output* loss_gradient);
  BuiltChain build_chain(const std::vector<models::LayerSpec>& specs, Output x, std::vector<int64_t> shape,
                         const LayerContext& context);
  BuiltLayer build_residual(const LayerInput& input, const LayerContext& context);
  Output build_chain_backward(const BuiltChain& chain, Output dy, bool input_wanted);
  void average_statistics();

  float* const buffers_;
  Fed features_, labels_, scale_;
  int64_t samples_ = 0;
  std::vector<Statistics> statistics_;
};

}  // namespace mlbench::framework::tensorflow_framework
