#pragma once

// The layers of graphs (models/layer_kinds.h), each with a backward pass of its own. Between products there are few
// passes over memory (token_kernels.h, attention_kernels.h), and padding is not computed (row_plan.h).

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/framework/native/graph/token_kernels.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/tensors/row_plan.h"
#include "mlbench/framework/tensors/sequence_decoder.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::native_framework {

struct GraphPass {
  bool training = false;
  uint64_t seed = 0;
  int rank = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;  // earlier training passes of the step
  // One state per layer: where the previous batch ended, empty where this batch starts anew. The pass replaces each by
  // the state in which this batch ends. Null: no state is carried.
  std::vector<LayerState>* carried = nullptr;
  DecodePass* decode = nullptr;  // the state of a decoder, which computes one position; null: whole sequences

  uint64_t dropout_key(size_t layer) const { return models::dropout_key(seed, rank, step, layer, micro_batch); }
};

class GraphLayer {
 public:
  virtual ~GraphLayer() = default;
  using Inputs = std::vector<const GraphValue*>;
  // Computes the layer's output. A training pass also keeps what the backward pass needs.
  virtual GraphValue forward(const Inputs& inputs, const GraphPass& pass) = 0;
  // The backward pass of the last training pass. Returns the gradient of each input that is `wanted` from `dy`, that of
  // the output, which stays as it is. Gradients of parameters go into the gradient buffer.
  virtual std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>& wanted) = 0;
};

struct GraphContext {
  const models::ModelDescription& model;
  std::function<framework::Parameter(const std::string& name)>
      parameter;              // by name: "embedding.weight"; called once by each layer that uses it
  GradientBuffer& gradients;  // must outlive the layers
  bool dropout = true;
  at::ScalarType product_type = at::kFloat;  // the type to which factors of products are rounded
  framework::Parameter of(const models::LayerSpec& layer, const char* role) const {
    return parameter(models::parameter_name(layer, role));
  }
};

// One layer, or several that are computed as one.
struct GraphStep {
  std::unique_ptr<GraphLayer> layer;
  std::string name;  // "fc1+relu+dropout"
  std::vector<std::string> inputs;
  std::string output;
};

// Makes the steps for all layers but the last. Throws UserError for a kind of layer that this framework lacks, naming
// those that it has.
std::vector<GraphStep> make_graph_steps(const GraphContext& context);

// The product x W' of rows x, [rows, in], and a weight W, [out, in], and the gradients of that product.
class RowProduct {
 public:
  RowProduct(framework::Parameter weight, at::ScalarType type) : weight_(std::move(weight)), type_(type) {}
  // Must be called before the products of a pass: takes the current values of the weight.
  void begin(const GraphPass& pass);
  // Prepares a factor of several products (framework/tensors/products.h).
  at::Tensor prepared(const at::Tensor& x) const { return framework::prepared(x, type_); }

  at::Tensor output(const at::Tensor& x) const { return output(x, 0, factor_.size(0)); }
  at::Tensor input_gradient(const at::Tensor& dy) const { return input_gradient(dy, 0, factor_.size(0)); }
  // These compute with rows [first, first + count) of W alone.
  at::Tensor output(const at::Tensor& x, int64_t first, int64_t count) const;
  at::Tensor input_gradient(const at::Tensor& dy, int64_t first, int64_t count) const;
  // Stores dy' x in `to`, those rows of the gradient of W that belong to `dy`, or with `add` adds it.
  void weight_gradient(at::Tensor to, const at::Tensor& dy, const at::Tensor& x, bool add) const;

  size_t slot() const { return weight_.slot; }

 private:
  framework::Parameter weight_;
  at::ScalarType type_;
  KeptMatrix memory_;
  at::Tensor factor_;  // the weight, prepared()
};

// ---- The LSTM is in graph_lstm.cpp, the two kinds of attention are in graph_attention.cpp.
std::unique_ptr<GraphLayer> make_lstm_sequence(const models::LayerSpec& layer, size_t index,
                                               const GraphContext& context);
std::unique_ptr<GraphLayer> make_multi_head_attention(const models::LayerSpec& layer, size_t index,
                                                      const GraphContext& context);
std::unique_ptr<GraphLayer> make_additive_attention(const models::LayerSpec& layer, size_t index,
                                                    const GraphContext& context);

}  // namespace mlbench::framework::native_framework
