#include "mlbench/framework/native/tape/build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/native/tape/convolution.h"
#include "mlbench/framework/native/tape/fusion.h"
#include "mlbench/framework/native/tape/operations.h"
#include "mlbench/framework/native/tape/winograd.h"
#include "mlbench/models/layer_kinds.h"

namespace mlbench::framework::native_framework {

namespace {

// The channels per block that oneDNN prefers on this CPU.
int lanes_for(InstructionSet set) { return set >= InstructionSet::kAvx512 ? 16 : 8; }

// The shape of the images that the layer yields of such images.
Shape shape_after(const models::LayerSpec& layer, const Shape& in) {
  const models::Shape out =
      models::find_layer_kind(layer.kind).output(layer, {models::Shape{in.channels, in.height, in.width}});
  return {out[0], out[1], out[2]};
}

PoolShape pool_shape(const models::LayerSpec& layer, const Shape& in) {
  const Json& options = layer.options;
  return {in.height, in.width, options.at("kernel"), options.at("stride"), options.at("padding")};
}

template <typename T>
class TapeBuilder {
 public:
  TapeBuilder(const NetworkOptions& options, InstructionSet set, Tape& tape)
      : options_(options), set_(set), kernels_(vector_kernels<T>(set, lanes_for(set))), tape_(tape) {}
  void build();

 private:
  Value* new_value(const Shape& shape, Layout layout);
  Operation* add(std::unique_ptr<Operation> operation, const std::string& name);
  Parameter parameter(const std::string& name) const;
  float* running(const std::string& name) const;
  const FlatRange& range_of(const std::string& name) const;
  Value* build_input();
  Value* build_chain(std::span<const models::LayerSpec> chain, Value* x);
  Value* build_layer(const FusedLayer& fused, Value* x);
  Value* build_conv2d(const FusedLayer& fused, Value* x);
  Value* build_linear(const FusedLayer& fused, Value* x);
  Value* build_activation(const FusedLayer& fused, Value* x);
  Value* build_dropout(const FusedLayer& fused, Value* x);
  Value* build_pool2d(const FusedLayer& fused, Value* x);
  Value* build_adaptive_avg_pool2d(const FusedLayer& fused, Value* x);
  Value* build_global_avg_pool2d(const FusedLayer& fused, Value* x);
  Value* build_global_avg_max_pool2d(const FusedLayer& fused, Value* x);
  Value* build_flatten(const FusedLayer& fused, Value* x);
  Value* build_batch_norm2d(const FusedLayer& fused, Value* x);
  Value* build_residual(const FusedLayer& fused, Value* x);
  Value* add_max_pool(const models::LayerSpec& layer, bool relu, const std::string& name, Value* x);
  struct Norm {  // a batch norm whose statistics are taken, but not yet applied
    Value *x = nullptr, *y = nullptr;
    std::shared_ptr<NormState> state;
    const Operation* statistics = nullptr;
    std::string name;
  };
  Norm begin_norm(const models::LayerSpec& layer, bool relu, Value* x);
  Value* finish_norm(const Norm& norm, Value* addend);
  void hand_on_gradient(Operation& operation, Value* term);
  void must_be_blocked(const models::LayerSpec& layer, const Value& x) const;

  const NetworkOptions& options_;
  InstructionSet set_;
  const VectorKernels<T>& kernels_;
  Tape& tape_;
  std::set<std::string> fused_;
};

template <typename T>
void TapeBuilder<T>::build() {
  tape_.layout = fmt::format("nChw{}c", kernels_.lanes);
  tape_.add_alias = [&kernels = kernels_](const Value& value, const Chunk& chunk) {
    T* gradient = value.gradient.template at<T>(chunk);
    kernels.add(gradient, value.alias->final_gradient().template at<T>(chunk),
                value.planes(chunk) * value.shape.pixels(), gradient);
  };
  tape_.input = build_input();
  tape_.result = build_chain(options_.model.layers, tape_.input);
  MLBENCH_CHECK(tape_.result->layout == Layout::kRows, "a model ends in rows of logits");
  tape_.fused.assign(fused_.begin(), fused_.end());
}

template <typename T>
Value* TapeBuilder<T>::new_value(const Shape& shape, Layout layout) {
  Value& value = tape_.values.emplace_back();
  value.shape = shape;
  value.layout = layout;
  int64_t bytes = shape.volume() * static_cast<int64_t>(layout == Layout::kRows ? sizeof(float) : sizeof(T));
  if (layout == Layout::kBlocked) {
    value.blocks = (shape.channels + kernels_.lanes - 1) / kernels_.lanes;
    bytes = value.blocks * kernels_.lanes * shape.pixels() * static_cast<int64_t>(sizeof(T));
  }
  value.data.bytes_per_sample = value.gradient.bytes_per_sample = bytes;
  return &value;
}

template <typename T>
Operation* TapeBuilder<T>::add(std::unique_ptr<Operation> operation, const std::string& name) {
  Operation* added = tape_.operations.emplace_back(std::move(operation)).get();
  added->name = name;
  for (Value* value : added->inputs) value->consumers.push_back(added);
  if (added->output != nullptr) added->output->producer = added;
  std::erase_if(added->writes_gradient_of, [](const Value* value) { return !value->wants_gradient; });
  return added;
}

template <typename T>
const FlatRange& TapeBuilder<T>::range_of(const std::string& name) const {
  for (const FlatRange& range : options_.layout.ranges) {
    if (range.name == name) return range;
  }
  throw InternalError(fmt::format("model '{}' has no parameter {}", options_.model.name, name));
}

template <typename T>
Parameter TapeBuilder<T>::parameter(const std::string& name) const {
  const FlatRange& range = range_of(name);
  return {options_.parameters + range.offset, options_.gradients + range.offset, range.offset, range.count};
}

template <typename T>
float* TapeBuilder<T>::running(const std::string& name) const {
  return options_.buffers + range_of(name).offset;
}

template <typename T>
Value* TapeBuilder<T>::build_input() {
  const std::vector<int64_t>& shape = options_.model.input_shape;
  const std::string first = options_.model.layers.empty() ? "" : options_.model.layers.front().kind;
  Value* input = nullptr;
  if (shape.size() != 3) {
    input = new_value({volume_of(shape), 1, 1}, Layout::kRows);
  } else {
    // oneDNN's convolutions for the first layer read images of 1 and 3 channels directly.
    const bool as_is = first == "conv2d" && (shape[0] == 1 || shape[0] == 3);
    input = new_value({shape[0], shape[1], shape[2]}, as_is ? Layout::kImage : Layout::kBlocked);
  }
  input->wants_gradient = false;
  tape_.reads_in_place =
      input->layout == Layout::kRows || (input->layout == Layout::kImage && std::is_same_v<T, float>);
  add(input->layout == Layout::kRows ? make_input<float>(input, tape_.source, kernels_.lanes)
                                     : make_input<T>(input, tape_.source, kernels_.lanes),
      "input");
  return input;
}

template <typename T>
void TapeBuilder<T>::must_be_blocked(const models::LayerSpec& layer, const Value& x) const {
  if (x.layout == Layout::kBlocked) return;
  throw UserError(
      fmt::format("framework 'native': layer '{}' of model '{}' takes images that a convolution or a pool "
                  "has computed; here it gets the {}",
                  layer.kind, options_.model.name, x.layout == Layout::kRows ? "rows of a matrix" : "input"));
}

template <typename T>
Value* TapeBuilder<T>::build_chain(std::span<const models::LayerSpec> chain, Value* x) {
  for (const FusedLayer& fused : fuse(chain)) {
    x = build_layer(fused, x);
    if (fused.next != nullptr) fused_.insert(fused.name());
  }
  return x;
}

template <typename T>
Value* TapeBuilder<T>::build_layer(const FusedLayer& fused, Value* x) {
  struct Row {
    const char* kind;
    Value* (TapeBuilder::*build)(const FusedLayer& fused, Value* x);
  };
  static constexpr Row kRows[] = {
      {"conv2d", &TapeBuilder::build_conv2d},
      {"linear", &TapeBuilder::build_linear},
      {"relu", &TapeBuilder::build_activation},
      {"softplus", &TapeBuilder::build_activation},  // this and avg_pool2d are for models/smooth_test.h
      {"flatten", &TapeBuilder::build_flatten},
      {"batch_norm2d", &TapeBuilder::build_batch_norm2d},
      {"residual", &TapeBuilder::build_residual},
      {"max_pool2d", &TapeBuilder::build_pool2d},
      {"avg_pool2d", &TapeBuilder::build_pool2d},
      {"adaptive_avg_pool2d", &TapeBuilder::build_adaptive_avg_pool2d},
      {"global_avg_pool2d", &TapeBuilder::build_global_avg_pool2d},
      {"global_avg_max_pool2d", &TapeBuilder::build_global_avg_max_pool2d},
      {"dropout", &TapeBuilder::build_dropout},
  };
  std::vector<const char*> kinds;
  for (const Row& row : kRows) {
    if (row.kind == fused.layer->kind) return (this->*row.build)(fused, x);
    kinds.push_back(row.kind);
  }
  throw UserError(fmt::format("framework 'native' has no layer '{}' (model '{}'); it has: {}", fused.layer->kind,
                              options_.model.name, fmt::join(kinds, ", ")));
}

template <typename T>
Value* TapeBuilder<T>::build_conv2d(const FusedLayer& fused, Value* x) {
  const models::LayerSpec& layer = *fused.layer;
  ConvolutionOptions conv;
  conv.kernel = layer.options.at("kernel");
  conv.stride = layer.options.at("stride");
  conv.padding = layer.options.at("padding");
  conv.weight = parameter(layer.name + ".weight");
  if (layer.options.value("bias", true)) conv.bias = parameter(layer.name + ".bias");
  Value* y = new_value(shape_after(layer, x->shape), Layout::kBlocked);
  const ConvolutionChoice choice =
      choose_convolution(options_.convolution, std::is_same_v<T, BFloat16>, *x, *y, conv, kernels_.lanes);
  conv.why = choice.why;
  ++tape_.convolutions[choice.winograd ? "winograd" : "direct"][choice.why];
  if constexpr (std::is_same_v<T, float>) {
    if (choice.winograd) {
      add(make_winograd_convolution(x, y, conv, set_, kernels_, options_.threads), layer.name);
      return y;
    }
  }
  add(std::make_unique<Convolution<T>>(x, y, conv, kernels_, options_.threads), layer.name);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_linear(const FusedLayer& fused, Value* x) {
  MLBENCH_CHECK(x->layout == Layout::kRows, "a linear layer takes rows");
  const models::LayerSpec& layer = *fused.layer;
  Value* y = new_value({layer.options.at("out").get<int64_t>(), 1, 1}, Layout::kRows);
  add(make_linear(x, y, parameter(layer.name + ".weight"),
                  layer.options.value("bias", true) ? parameter(layer.name + ".bias") : Parameter()),
      layer.name);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_activation(const FusedLayer& fused, Value* x) {
  if (fused.next != nullptr) return add_max_pool(*fused.next, true, fused.name(), x);
  const models::LayerSpec& layer = *fused.layer;
  const bool rows = x->layout == Layout::kRows;
  if (!rows) must_be_blocked(layer, *x);
  Value* y = new_value(x->shape, x->layout);
  if (rows) {
    add(make_activation<float>(layer.kind, x, y), layer.kind);
  } else if (layer.kind == "relu") {
    add(make_relu<T>(x, y, kernels_), layer.kind);
  } else {
    add(make_activation<T>(layer.kind, x, y), layer.kind);
  }
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_dropout(const FusedLayer& fused, Value* x) {
  const models::LayerSpec& layer = *fused.layer;
  const DropoutOptions dropout{layer.options.at("p"), options_.seed, options_.rank, fused.index};
  if (!options_.dropout || dropout.p == 0) return x;
  MLBENCH_CHECK(x->layout == Layout::kRows, "dropout takes rows");
  Value* y = new_value(x->shape, Layout::kRows);
  add(make_dropout(x, y, dropout), layer.kind);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_pool2d(const FusedLayer& fused, Value* x) {
  const models::LayerSpec& layer = *fused.layer;
  if (layer.kind == "max_pool2d") return add_max_pool(layer, false, layer.kind, x);
  must_be_blocked(layer, *x);
  Value* y = new_value(shape_after(layer, x->shape), Layout::kBlocked);
  add(make_avg_pool<T>(x, y, pool_shape(layer, x->shape), kernels_.lanes), layer.kind);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::add_max_pool(const models::LayerSpec& layer, bool relu, const std::string& name, Value* x) {
  must_be_blocked(layer, *x);
  Value* y = new_value(shape_after(layer, x->shape), Layout::kBlocked);
  add(make_max_pool<T>(x, y, pool_shape(layer, x->shape), relu, kernels_), name);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_flatten(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  Value* y = new_value({x->shape.volume(), 1, 1}, Layout::kRows);
  add(make_flatten<T>(x, y, kernels_.lanes), fused.layer->kind);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_adaptive_avg_pool2d(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  const Shape after = shape_after(*fused.layer, x->shape);
  if (after.height == x->shape.height && after.width == x->shape.width) return x;
  Value* y = new_value(after, Layout::kBlocked);
  add(make_adaptive_avg_pool<T>(x, y, kernels_.lanes), fused.layer->kind);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_global_avg_pool2d(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  Value* y = new_value({x->shape.channels, 1, 1}, Layout::kRows);
  add(make_global_avg_pool<T>(x, y, kernels_.lanes), fused.layer->kind);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_global_avg_max_pool2d(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  Value* y = new_value({2 * x->shape.channels, 1, 1}, Layout::kRows);
  add(make_global_avg_max_pool<T>(x, y, kernels_.lanes), fused.layer->kind);
  return y;
}

template <typename T>
Value* TapeBuilder<T>::build_batch_norm2d(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  return finish_norm(begin_norm(*fused.layer, fused.next != nullptr, x), nullptr);
}

template <typename T>
auto TapeBuilder<T>::begin_norm(const models::LayerSpec& layer, bool relu, Value* x) -> Norm {
  NormOptions options;
  options.weight = parameter(layer.name + ".weight");
  options.bias = parameter(layer.name + ".bias");
  options.running_mean = running(layer.name + ".running_mean");
  options.running_variance = running(layer.name + ".running_var");
  options.eps = layer.options.at("eps");
  options.momentum = layer.options.at("momentum");
  options.frozen = options_.frozen_batch_norm;
  options.relu = relu;
  Norm norm;
  norm.x = x;
  norm.y = new_value(x->shape, Layout::kBlocked);
  norm.state = make_norm_state(options, x->shape.channels, x->blocks * kernels_.lanes, options_.threads);
  norm.name = layer.name;
  norm.statistics = add(make_batch_statistics<T>(x, norm.y, norm.state, kernels_), layer.name + " statistics");
  return norm;
}

template <typename T>
Value* TapeBuilder<T>::finish_norm(const Norm& norm, Value* addend) {
  Operation* operation = add(make_normalise<T>(norm.x, addend, norm.y, norm.state, kernels_), norm.name);
  operation->after = norm.statistics;
  if (addend != nullptr) hand_on_gradient(*operation, addend);
  return norm.y;
}

template <typename T>
Value* TapeBuilder<T>::build_residual(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  const NormalisedChain body = split_norm(fused.layer->body), shortcut = split_norm(fused.layer->shortcut);
  // The shortcut comes first, as its convolution shares a segment with the body's first one.
  Value* b = build_chain(shortcut.layers, x);
  Norm of_shortcut, of_body;
  if (shortcut.norm != nullptr) of_shortcut = begin_norm(*shortcut.norm, false, b);
  Value* a = build_chain(body.layers, x);
  if (body.norm != nullptr) of_body = begin_norm(*body.norm, fused.next != nullptr, a);
  if (shortcut.norm != nullptr) b = finish_norm(of_shortcut, nullptr);
  if (body.norm != nullptr) {
    fused_.insert("batch_norm2d+residual");
    return finish_norm(of_body, b);
  }
  Value* y = new_value(x->shape, Layout::kBlocked);
  y->shape = a->shape;
  y->blocks = a->blocks;
  y->data.bytes_per_sample = y->gradient.bytes_per_sample = a->data.bytes_per_sample;
  Operation* sum = add(make_sum<T>(a, b, y, kernels_), "residual");
  hand_on_gradient(*sum, a);
  hand_on_gradient(*sum, b);
  return y;
}

// The gradient of a sum's term is the sum's. A value can alias the gradient of one sum, without a copy; for a second
// sum the gradient is written.
template <typename T>
void TapeBuilder<T>::hand_on_gradient(Operation& operation, Value* term) {
  if (!term->wants_gradient) return;
  if (term->alias == nullptr) {
    term->alias = operation.output;
  } else {
    operation.writes_gradient_of.push_back(term);
  }
}

}  // namespace

template <typename T>
std::unique_ptr<Tape> build_tape(const NetworkOptions& options, InstructionSet set) {
  auto tape = std::make_unique<Tape>();
  TapeBuilder<T>(options, set, *tape).build();
  return tape;
}
template std::unique_ptr<Tape> build_tape<float>(const NetworkOptions& options, InstructionSet set);
template std::unique_ptr<Tape> build_tape<BFloat16>(const NetworkOptions& options, InstructionSet set);

}  // namespace mlbench::framework::native_framework
