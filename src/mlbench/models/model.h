#pragma once

// Neutral descriptions of models: what every framework must build, parameter by parameter.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/flat_layout.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/task.h"

namespace mlbench::models {

// The initial values of a parameter. The values are drawn from the counter-based stream (seed, kInitStream, index of
// the parameter), so that all ranks and frameworks start from the same bits.
struct Initialiser {
  enum class Kind { kZeros, kOnes, kUniform, kNormal, kConstant };
  Kind kind = Kind::kZeros;
  double scale = 0;       // the bound of [-scale, scale], the standard deviation, or the constant
  int64_t zero_rows = 0;  // so many first rows start as zeros, which does not change the values of the others
};
inline Initialiser zeros() { return {.kind = Initialiser::Kind::kZeros}; }
inline Initialiser ones() { return {.kind = Initialiser::Kind::kOnes}; }
inline Initialiser uniform(double bound) { return {.kind = Initialiser::Kind::kUniform, .scale = bound}; }
inline Initialiser normal(double deviation) { return {.kind = Initialiser::Kind::kNormal, .scale = deviation}; }
inline Initialiser constant(double value) { return {.kind = Initialiser::Kind::kConstant, .scale = value}; }

struct ParameterSpec {
  std::string name;            // "conv1.weight": neutral name, also the key in checkpoints
  std::vector<int64_t> shape;  // row-major logical shape; convolutions are OIHW
  Initialiser initialiser;
  bool trainable = true;  // false: a buffer such as BatchNorm's running mean
  TensorUse use = TensorUse::kMatrix;
};

// One layer. layer_kinds.h has the kinds, with their options, inputs, parameters and shapes.
//
// In a chain, values have no names: each layer takes the output of the one before. In a graph, `inputs` and `output`
// name values; a name stands for one value in the whole model.
struct LayerSpec {
  std::string kind;
  // The prefix of the names of the layer's parameters. "" if the layer has none; in a graph, messages use it, too.
  std::string name;
  Json options = Json::object();
  std::vector<LayerSpec> body, shortcut;  // of a residual layer, which only chains have
  std::vector<std::string> inputs = {};   // graph: in the order of layer_kinds.h
  std::string output = {};                // graph: the value that the layer yields
  // The parameters that belong to another layer, by role: {"weight", "embedding.weight"}. With tied weights each layer
  // adds its part of the gradient, and the parameter occurs once in the neutral order.
  std::map<std::string, std::string> shared = {};
};

// The full name of the layer's parameter with that role: "conv1.weight", or the other layer's parameter that is shared.
std::string parameter_name(const LayerSpec& layer, const std::string& role);

// What training minimises: the mean over BatchView::weight of one of these losses, plus the model's penalties.
struct LossSpec {
  // cross_entropy         of logits and labels
  // binary_cross_entropy  of the logit of class 1 and labels 0 or 1
  // mean_squared_error    (z - y)^2 of the output z and the label y as a number
  // token_cross_entropy   of each position's logits and target. With V classes, smoothing e and log probabilities p:
  //                       -(1 - e) p[target] - e / V * sum of all p (Szegedy et al. 2016)
  std::string kind = "cross_entropy";
  double label_smoothing = 0;      // of token_cross_entropy
  int64_t ignored = -1;            // positions with this target do not count at all; -1: there are none
  std::string targets = "labels";  // the tensor of the batch that has the targets
};

struct ModelDescription {
  std::string name;
  std::vector<int64_t> input_shape;       // without the batch; empty: the model is a graph, whose inputs have names
  int64_t outputs = 0;                    // logits per sample, or per position
  std::vector<LayerSpec> layers;          // in order of execution: a chain, or a graph in topological order
  std::vector<ParameterSpec> parameters;  // the neutral order: trainable first, then buffers
  LossSpec loss;
  // Frameworks compute, report and differentiate the task's loss + l1 * the sum of absolute values + l2 / 2 * the sum
  // of squares of all trainable parameters but those of norms. The derivative of |0| is 0.
  double l1 = 0, l2 = 0;

  // The rest is about graphs. The logits are the last layer's output.
  std::vector<std::string> inputs;     // tensors of the batch that layers read: "tokens"; "source", "source_lengths"
  std::vector<std::string> penalties;  // scalar values that a training pass adds to the mean loss
  std::string decoder_input;           // the tokens that a decoder feeds back, "target_in"; "": there is no decoder

  bool is_graph() const { return !inputs.empty(); }
  int64_t parameter_count() const;  // trainable elements
};

// The key of a layer's dropout masks, which are counter-based. Element i (row-major) of the input of layer number
// `layer` (its place in its chain) is kept when word i % 4 of philox(key, i / 4, 0) is at least p * 2^32. `micro_batch`
// numbers the training passes of a step from 0. In a graph, i is an element of the mask, whose shape is in
// layer_kinds.h.
uint64_t dropout_key(uint64_t seed, int rank, int64_t step, size_t layer, int64_t micro_batch = 0);

// The description of task.model for the shape and the classes of task.data. Throws UserError listing the valid names.
ModelDescription describe_model(const spec::TaskSpec& task);
std::vector<std::string> model_names();

// Fills `values`, the logical elements of one parameter, from the counter-based stream.
void initialise(const ParameterSpec& parameter, size_t index, uint64_t seed, std::span<float> values);

using mlbench::FlatLayout;
using mlbench::FlatRange;

// Places every tensor of `model` at a multiple of 64 bytes, in the neutral order.
FlatLayout lay_out(const ModelDescription& model);

// Initialises all parameters and buffers in flat buffers of the layout's sizes; padding is left alone.
void initialise(const ModelDescription& model, const FlatLayout& layout, uint64_t seed, std::span<float> parameters,
                std::span<float> buffers);

// A SHA-256 over the logical values alone, without padding: parameters, then averaged buffers, in the neutral order.
// `parameters` and `buffers` are the flat buffers on the host.
std::string weights_sha256(const FlatLayout& layout, std::span<const float> parameters, std::span<const float> buffers);

}  // namespace mlbench::models
