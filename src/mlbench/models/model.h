#pragma once

// Neutral descriptions of models: what every framework must build, parameter by parameter.

#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/task.h"

namespace mlbench::models {

// How a parameter starts; drawn from the counter-based stream (seed, kInitStream, index of the parameter), so all
// ranks and frameworks start from the same bits.
struct Initialiser {
  enum class Kind { kZeros, kOnes, kUniform, kNormal };
  Kind kind = Kind::kZeros;
  double scale = 0;              // uniform in [-scale, scale], or standard deviation
};

struct ParameterSpec {
  std::string name;              // "conv1.weight": neutral name, also the key in checkpoints
  std::vector<int64_t> shape;    // row-major logical shape; convolutions are OIHW
  Initialiser initialiser;
  bool trainable = true;         // false: a buffer such as BatchNorm's running mean
};

struct LayerSpec {
  std::string kind;              // "conv2d", "relu", "max_pool2d", "linear", "dropout", "flatten", ...
  std::string name;              // prefix of its parameters; "" if it has none
  Json options = Json::object(); // e.g. {"in": 1, "out": 32, "kernel": 5, "padding": 2}
};

struct ModelDescription {
  std::string name;
  std::vector<int64_t> input_shape;        // without the batch
  int64_t outputs = 0;                     // logits per sample
  std::vector<LayerSpec> layers;           // in order of execution (a chain; blocks nest their own chains later)
  std::vector<ParameterSpec> parameters;   // the neutral order: trainable first, then buffers

  int64_t parameter_count() const;         // trainable elements
};

// The description of task.model for task.data's shape and classes. UserError listing the valid model names.
ModelDescription describe_model(const spec::TaskSpec& task);
std::vector<std::string> model_names();

// Fills `values` (logical elements of one parameter) from the counter-based stream.
void initialise(const ParameterSpec& parameter, size_t index, uint64_t seed, std::span<float> values);

// Where tensors lie in the flat buffers: parameters in one, buffers in another, each tensor at a multiple of 64 bytes.
struct FlatRange {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;            // elements from the start of its flat buffer
  int64_t count = 0;             // elements
  bool trainable = true;
};
struct FlatLayout {
  std::vector<FlatRange> ranges;           // neutral order
  int64_t parameter_elements = 0;          // padded size of the parameter (and gradient) buffer
  int64_t buffer_elements = 0;             // padded size of the buffer of buffers
};
FlatLayout lay_out(const ModelDescription& model);

// SHA-256 over names-free logical values: parameters, then averaged buffers, in the neutral order, padding and
// num_batches_tracked left out. `parameters` and `buffers` are the flat buffers on the host.
std::string weights_sha256(const FlatLayout& layout, std::span<const float> parameters, std::span<const float> buffers);

}  // namespace mlbench::models
