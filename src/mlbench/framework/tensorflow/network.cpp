#include "mlbench/framework/tensorflow/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/tensorflow/losses.h"
#include "mlbench/models/layer_kinds.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

std::vector<int64_t> batched(int64_t samples, const std::vector<int64_t>& shape) {
  std::vector<int64_t> all = {samples};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

bool same(Output a, Output b) { return a.oper == b.oper && a.index == b.index; }

bool has_parameters(const models::LayerSpec& layer) {
  const auto any = [](const std::vector<models::LayerSpec>& chain) {
    return std::ranges::any_of(chain, has_parameters);
  };
  return any(layer.body) || any(layer.shortcut) || !models::find_layer_kind(layer.kind).parameters(layer).empty();
}

Tensor alias_of_floats(const std::vector<int64_t>& shape, const float* values) {
  return alias(TF_FLOAT, shape, values, static_cast<size_t>(volume_of(shape)) * sizeof(float));
}

}  // namespace

void Network::Run::add_input(Output input, const Tensor& source) {
  if (std::ranges::any_of(inputs, [&](Output known) { return same(known, input); })) return;
  inputs.push_back(input);
  sources.push_back(&source);
}

Network::Network(const FrameworkOptions& options, const FlatLayout& layout, float* parameters, float* buffers,
                 LayerListener& listener)
    : model_(options.model),
      dropout_(options.dropout),
      frozen_batch_norm_(options.frozen_batch_norm),
      ordered_(options.inter_op_threads == 1),
      layout_(layout),
      parameters_(parameters),
      buffers_(buffers),
      listener_(listener) {
  features_.input = graph_.placeholder(TF_FLOAT, batched(-1, model_.input_shape));
  labels_.input = graph_.placeholder(TF_INT64, {-1});
  scale_.input = graph_.placeholder(TF_FLOAT, {});
  build_pass(evaluation_, false, nullptr);
  Output loss_gradient;
  const BuiltChain chain = build_pass(training_, true, &loss_gradient);
  build_backward(chain, loss_gradient);
  session_ = std::make_unique<Session>(graph_, options.threads, options.inter_op_threads);
}

void Network::forward(const NetworkBatch& batch, bool training, const DrawMask& draw) {
  features_.tensor = alias_of_floats(batched(batch.samples, model_.input_shape), batch.features);
  labels_.tensor = alias(TF_INT64, {batch.samples}, batch.labels, static_cast<size_t>(batch.samples) * sizeof(int64_t));
  if (training) {
    for (Mask& mask : masks_) {
      const std::vector<int64_t> shape = batched(batch.samples, mask.shape);
      mask.values.resize(static_cast<size_t>(volume_of(shape)));
      draw(mask.layer, mask.p, mask.values);
      mask.tensor = alias_of_floats(shape, mask.values.data());
    }
  }
  for (Tensor& old : kept_) old.reset();
  std::ranges::move(run(training ? training_ : evaluation_), kept_.begin());
  if (training) average_statistics();
}

void Network::backward(float scale) {
  scale_.tensor = alias_of_floats({}, &scale);
  run(backward_);
  for (size_t i = 2; i < kept_.size(); ++i) kept_[i].reset();
}

std::vector<Tensor> Network::run(const Run& run) {
  std::vector<TF_Tensor*> fed;
  for (const Tensor* source : run.sources) fed.push_back(source->get());
  try {
    return session_->run(run.inputs, fed, run.fetches, run.targets);
  } catch (const std::runtime_error&) {
    listener_.rethrow();
    throw;
  }
}

std::span<const float> Network::values_of(const Tensor& tensor) {
  return {static_cast<const float*>(library().TF_TensorData(tensor.get())),
          library().TF_TensorByteSize(tensor.get()) / sizeof(float)};
}

void Network::average_statistics() {
  const auto average = [this](const FlatRange& range, const Tensor& of_batch, float momentum) {
    const std::span<const float> values = values_of(of_batch);
    float* const running = buffers_ + range.offset;
    for (size_t i = 0; i < values.size(); ++i) running[i] = running[i] * (1 - momentum) + values[i] * momentum;
  };
  for (const Statistics& one : statistics_) {
    average(*one.mean, kept_[one.fetched], one.momentum);
    average(*one.variance, kept_[one.fetched + 1], one.momentum);
  }
}

const FlatRange& Network::range_named(const std::string& name) const {
  const auto range = std::ranges::find(layout_.ranges, name, &FlatRange::name);
  MLBENCH_CHECK(range != layout_.ranges.end(), fmt::format("model '{}' has no parameter {}", model_.name, name));
  return *range;
}

Output Network::value_of(const std::string& name, Run& run) {
  const auto [place, is_new] = values_.try_emplace(name);
  Fed& value = place->second;
  if (is_new) {
    const FlatRange& range = range_named(name);
    const float* const values = (range.trainable ? parameters_ : buffers_) + range.offset;
    value.input = graph_.placeholder(TF_FLOAT, range.shape);
    value.tensor = alias_of_floats(range.shape, values);
    MLBENCH_CHECK(library().TF_TensorData(value.tensor.get()) == values, "TensorFlow copied " + name);
  }
  run.add_input(value.input, value.tensor);
  return value.input;
}

LayerContext Network::context_for(Run& run, bool training) {
  LayerContext context{graph_, training, dropout_, frozen_batch_norm_, {}, {}, {}};
  context.value = [this, &run](const std::string& name) { return value_of(name, run); };
  context.mask = [this, &run](size_t layer, double p, const std::vector<int64_t>& shape) {
    Mask& mask = masks_.emplace_back();
    mask.input = graph_.placeholder(TF_FLOAT, batched(-1, shape));
    mask.layer = layer;
    mask.p = p;
    mask.shape = shape;
    run.add_input(mask.input, mask.tensor);
    return mask.input;
  };
  context.statistics = [this, &run](const models::LayerSpec& layer, Output mean, Output variance) {
    statistics_.push_back({&range_named(layer.name + ".running_mean"), &range_named(layer.name + ".running_var"),
                           layer.options.at("momentum").get<float>(), run.fetches.size()});
    run.fetches.insert(run.fetches.end(), {mean, variance});
  };
  return context;
}

// ---- forward

Network::BuiltChain Network::build_pass(Run& run, bool training, Output* loss_gradient) {
  run.add_input(features_.input, features_.tensor);
  run.add_input(labels_.input, labels_.tensor);
  run.fetches.resize(2);
  Output x = features_.input;
  if (model_.input_shape.size() == 3) x = graph_.binary("Transpose", x, graph_.constant({0, 2, 3, 1}));
  BuiltChain chain = build_chain(model_.layers, x, model_.input_shape, context_for(run, training));
  const BuiltLoss loss = find_loss(model_).build(graph_, chain.output, labels_.input);
  run.fetches[0] = chain.output;
  run.fetches[1] = loss.values;
  if (loss_gradient != nullptr) *loss_gradient = loss.gradient;
  return chain;
}

Network::BuiltChain Network::build_chain(const std::vector<models::LayerSpec>& specs, Output x,
                                         std::vector<int64_t> shape, const LayerContext& context) {
  BuiltChain chain{x, specs, {}};
  for (size_t i = 0; i < specs.size(); ++i) {
    const LayerInput input{specs[i], i, after_last_layer(chain.output), shape};
    chain.layers.push_back(specs[i].kind == "residual" ? build_residual(input, context)
                                                       : build_layer(input, context, model_.name));
    chain.output = chain.layers.back().output;
    if (context.training && ordered_) note_done(specs[i], LayerPass::kForward, {}, chain.output);
    shape = models::find_layer_kind(specs[i].kind).output(specs[i], {shape});
  }
  return chain;
}

BuiltLayer Network::build_residual(const LayerInput& input, const LayerContext& context) {
  BuiltChain body = build_chain(input.layer.body, input.x, input.shape, context);
  BuiltChain shortcut = build_chain(input.layer.shortcut, input.x, input.shape, context);
  const Output sum = graph_.binary("AddV2", body.output, after_last_layer(shortcut.output));
  const auto backward = [this, body = std::move(body), shortcut = std::move(shortcut)](Output dy, bool input_wanted) {
    const Output of_body = build_chain_backward(body, dy, input_wanted);
    const Output of_shortcut = build_chain_backward(shortcut, dy, input_wanted);
    LayerGradients gradients;
    if (input_wanted) gradients.input = graph_.binary("AddV2", of_body, of_shortcut);
    return gradients;
  };
  return {sum, backward};
}

Output Network::after_last_layer(Output x) {
  return last_.empty() ? x : graph_.operation("Identity").input(x).after(last_).output();
}

void Network::note_done(const models::LayerSpec& layer, LayerPass pass, const LayerGradients& gradients,
                        Output output) {
  LayerNote note{layer.name.empty() ? layer.kind : layer.name, pass, {}};
  std::vector<Output> values;
  for (const ParameterGradient& one : gradients.parameters) {
    note.gradients.push_back(&range_named(one.parameter));
    values.push_back(one.value);
  }
  std::vector<TF_Operation*> after;
  if (output.oper != nullptr) after.push_back(output.oper);
  TF_Operation* const done = add_layer_done(graph_, listener_, notes_.size(), values, after);
  notes_.push_back(std::move(note));
  (pass == LayerPass::kForward ? training_ : backward_).targets.push_back(done);
  if (ordered_) last_ = {done};
}

// ---- backward

void Network::build_backward(const BuiltChain& chain, Output loss_gradient) {
  const std::vector<TF_Operation*> forward = graph_.operations();
  last_.clear();
  build_chain_backward(chain, graph_.binary("Mul", loss_gradient, scale_.input), false);
  feed_backward(forward);
}

Output Network::build_chain_backward(const BuiltChain& chain, Output dy, bool input_wanted) {
  const auto begin = chain.specs.begin();
  const auto first = std::ranges::find_if(chain.specs, has_parameters) - begin;
  for (auto i = static_cast<std::ptrdiff_t>(chain.layers.size()); i-- > 0;) {
    if (!input_wanted && i < first) return {nullptr, 0};
    const LayerGradients gradients =
        chain.layers[static_cast<size_t>(i)].backward(after_last_layer(dy), input_wanted || i > first);
    note_done(chain.specs[static_cast<size_t>(i)], LayerPass::kBackward, gradients, gradients.input);
    dy = gradients.input;
  }
  return dy;
}

// What operations of the backward pass take from those of the forward pass is fetched there and fed here.
void Network::feed_backward(const std::vector<TF_Operation*>& forward) {
  const std::set<TF_Operation*> outside(forward.begin(), forward.end());
  std::set<TF_Operation*> seen;
  std::vector<TF_Operation*> open = backward_.targets;
  std::vector<Output> taken;
  while (!open.empty()) {
    TF_Operation* const operation = open.back();
    open.pop_back();
    if (!seen.insert(operation).second) continue;
    for (int i = 0; i < library().TF_OperationNumInputs(operation); ++i) {
      const Output value = library().TF_OperationInput({operation, i});
      if (!outside.contains(value.oper)) {
        open.push_back(value.oper);
      } else if (library().TF_OperationOpType(value.oper) != std::string("Const")) {
        taken.push_back(value);
      }
    }
  }
  backward_.add_input(scale_.input, scale_.tensor);
  std::map<size_t, Output> fetched;
  for (const Output value : taken) {
    const auto known = std::ranges::find_if(training_.inputs, [&](Output input) { return same(input, value); });
    if (same(value, scale_.input)) continue;
    if (known != training_.inputs.end()) {
      backward_.add_input(value, *training_.sources[static_cast<size_t>(known - training_.inputs.begin())]);
      continue;
    }
    const auto place = std::ranges::find_if(training_.fetches, [&](Output one) { return same(one, value); });
    fetched[static_cast<size_t>(place - training_.fetches.begin())] = value;
    if (place == training_.fetches.end()) training_.fetches.push_back(value);
  }
  kept_.resize(training_.fetches.size());
  for (const auto& [place, value] : fetched) backward_.add_input(value, kept_[place]);
}

}  // namespace mlbench::framework::tensorflow_framework
