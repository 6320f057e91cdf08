#pragma once

// Neutral descriptions of models: what every framework must build, parameter by parameter.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/flat_layout.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/task.h"

namespace mlbench::models {

// How a parameter starts; drawn from the counter-based stream (seed, kInitStream, index of the parameter), so all
// ranks and frameworks start from the same bits.
struct Initialiser {
  enum class Kind { kZeros, kOnes, kUniform, kNormal };
  Kind kind = Kind::kZeros;
  double scale = 0;  // uniform in [-scale, scale], or standard deviation
};

struct ParameterSpec {
  std::string name;            // "conv1.weight": neutral name, also the key in checkpoints
  std::vector<int64_t> shape;  // row-major logical shape; convolutions are OIHW
  Initialiser initialiser;
  bool trainable = true;  // false: a buffer such as BatchNorm's running mean
};

struct LayerSpec {
  // kind         parameters            options
  // conv2d       weight (OIHW), bias   in, out, kernel, stride, padding (zeros on every side), bias: has it one?
  // linear       weight (OI), bias     in, out; of a sequence, a sample {positions, in}: of each position
  // lstm         weight_ih (4H, in),   in, hidden (H): {positions, in} to {positions, hidden};
  //              weight_hh (4H, H),    the first states are zero, the gates in the order i f g o,
  //              bias_ih,              as PyTorch has it
  //              bias_hh
  // attention    in_weight (3D, D),    features (D), heads, causal: scaled dot products of each
  //              out_weight (D, D)     position with all, or with itself and those before it
  //                                    (Vaswani et al. 2017); in_weight holds queries, keys and
  //                                    values
  // relu, tanh, softplus, flatten      none
  // max_pool2d, avg_pool2d             kernel (= stride, no padding)
  // global_avg_pool2d                  none: mean over height and width, {channels} remain
  // batch_norm2d weight, bias;         channels, eps, momentum: weight of the batch in the running statistics (variance
  //              running_mean, _var    of the batch: biased to normalise, unbiased to be averaged)
  // residual     those of its chains   none: body(x) + shortcut(x); an empty shortcut is the identity
  // dropout                            p: probability of zero; what is kept is scaled by 1 / (1 - p)
  std::string kind;
  std::string name;  // prefix of its parameters; "" if it has none
  Json options = Json::object();
  std::vector<LayerSpec> body, shortcut;  // of a residual layer
};

struct ModelDescription {
  std::string name;
  std::vector<int64_t> input_shape;       // without the batch
  int64_t outputs = 0;                    // logits per sample
  std::vector<LayerSpec> layers;          // in order of execution: a chain
  std::vector<ParameterSpec> parameters;  // the neutral order: trainable first, then buffers
  // The loss of the task plus l2 / 2 times the sum of squares of all trainable parameters is what frameworks compute,
  // report as loss and differentiate.
  double l2 = 0;

  int64_t parameter_count() const;  // trainable elements
};

// Dropout masks are counter-based: element i (row-major) of the input of layer number `layer` (its place in its chain)
// is kept when word i % 4 of philox(key, i / 4, 0) is at least p * 2^32, where key is
uint64_t dropout_key(uint64_t seed, int rank, int64_t step, size_t layer);

// The description of task.model for task.data's shape and classes. UserError listing the valid model names.
ModelDescription describe_model(const spec::TaskSpec& task);
std::vector<std::string> model_names();

// Fills `values` (logical elements of one parameter) from the counter-based stream.
void initialise(const ParameterSpec& parameter, size_t index, uint64_t seed, std::span<float> values);

using mlbench::FlatLayout;
using mlbench::FlatRange;

// Every tensor of `model` at a multiple of 64 bytes, in the neutral order.
FlatLayout lay_out(const ModelDescription& model);

// All parameters and buffers into their places in flat buffers of the layout's sizes; padding is left alone.
void initialise(const ModelDescription& model, const FlatLayout& layout, uint64_t seed, std::span<float> parameters,
                std::span<float> buffers);

// SHA-256 over names-free logical values: parameters, then averaged buffers, in the neutral order, padding and
// num_batches_tracked left out. `parameters` and `buffers` are the flat buffers on the host.
std::string weights_sha256(const FlatLayout& layout, std::span<const float> parameters, std::span<const float> buffers);

}  // namespace mlbench::models
