#include "mlbench/framework/tensorflow/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/tensors/flat.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

bool same(Output a, Output b) { return a.oper == b.oper && a.index == b.index; }

}  // namespace

Tensor alias_of_floats(const std::vector<int64_t>& shape, const float* values) {
  return alias(TF_FLOAT, shape, values, static_cast<size_t>(volume_of(shape)) * sizeof(float));
}

void Passes::Run::add_input(Output input, const Tensor& source) {
  if (std::ranges::any_of(inputs, [&](Output known) { return same(known, input); })) return;
  inputs.push_back(input);
  sources.push_back(&source);
}

Passes::Passes(const NetworkContext& context)
    : model_(context.options.model),
      layout_(context.layout),
      dropout_(context.options.dropout),
      frozen_batch_norm_(context.options.frozen_batch_norm),
      inter_op_threads_(context.options.inter_op_threads),
      parameters_(context.parameters),
      buffers_(context.buffers),
      listener_(context.listener),
      slot_(context.slot) {}

// ---- runs

std::vector<Tensor> Passes::run(const Run& run) {
  std::vector<TF_Tensor*> fed;
  for (const Tensor* source : run.sources) fed.push_back(source->get());
  try {
    return session_->run(run.inputs, fed, run.fetches, run.targets);
  } catch (const std::runtime_error&) {
    listener_.rethrow();
    throw;
  }
}

std::span<const float> Passes::values_of(const Tensor& tensor) {
  return {static_cast<const float*>(library().TF_TensorData(tensor.get())),
          library().TF_TensorByteSize(tensor.get()) / sizeof(float)};
}

void Passes::run_forward(bool training, const DrawMask& draw) {
  if (training) {
    for (Mask& mask : masks_) {
      const std::vector<int64_t> shape = mask.shape();
      mask.tensor.reset();
      mask.values.resize_(shape);
      draw(mask.layer, mask.p, framework::values_of(mask.values));
      mask.tensor = alias_of_floats(shape, mask.values.const_data_ptr<float>());
    }
  }
  for (Tensor& old : kept_) old.reset();
  std::ranges::move(run(training ? training_ : evaluation_), kept_.begin());
}

void Passes::run_backward() {
  run(backward_);
  for (size_t i = results_; i < kept_.size(); ++i) kept_[i].reset();
}

// ---- what layers ask for

const FlatRange& Passes::range_named(const std::string& name) const {
  const auto range = std::ranges::find(layout_.ranges, name, &FlatRange::name);
  MLBENCH_CHECK(range != layout_.ranges.end(), fmt::format("model '{}' has no parameter {}", model_.name, name));
  return *range;
}

Output Passes::value_of(const std::string& name, Run& run) {
  const auto [place, is_new] = values_.try_emplace(name);
  Fed& value = place->second;
  if (is_new) {
    const FlatRange& range = range_named(name);
    const float* const values = (range.trainable ? parameters_ : buffers_) + range.offset;
    value.input = graph_.placeholder(TF_FLOAT, range.shape);
    value.tensor = alias_of_floats(range.shape, values);
    MLBENCH_CHECK(library().TF_TensorData(value.tensor.get()) == values, "TensorFlow copied " + name);
  }
  run.feed(value);
  return value.input;
}

void Passes::feed_values(Run& run) const {
  for (const auto& [name, value] : values_) run.feed(value);
}

LayerContext Passes::context_for(Run& run, bool training) {
  LayerContext context{graph_, training, dropout_, frozen_batch_norm_, {}, {}, {}, {}, {}, nullptr};
  context.value = [this, &run](const std::string& name) { return value_of(name, run); };
  return context;
}

Output Passes::mask_of(size_t layer, double p, const std::vector<int64_t>& any,
                       std::function<std::vector<int64_t>()> shape, Run& run) {
  Mask& mask = masks_.emplace_back();
  mask.input = graph_.placeholder(TF_FLOAT, any);
  mask.layer = layer;
  mask.p = p;
  mask.shape = std::move(shape);
  mask.values = at::empty({0}, at::kFloat);
  run.feed(mask);
  return mask.input;
}

Output Passes::after_last_layer(Output x) { return graph_.operation("Identity").input(x).after(last_).output(); }

void Passes::note_done(const std::string& label, LayerPass pass, const LayerGradients& gradients,
                       const std::vector<Output>& outputs) {
  const bool ordered = inter_op_threads_ == 1;
  if (pass == LayerPass::kForward && !ordered) return;
  LayerNote note{label, pass, {}};
  std::vector<Output> values;
  for (const ParameterGradient& one : gradients.parameters) {
    note.slots.push_back(slot_(one.parameter));
    values.push_back(one.value);
  }
  std::vector<TF_Operation*> after;
  for (const Output& output : outputs) {
    if (output.oper != nullptr) after.push_back(output.oper);
  }
  TF_Operation* const done = add_layer_done(graph_, listener_, notes_.size(), values, after);
  notes_.push_back(std::move(note));
  (pass == LayerPass::kForward ? training_ : backward_).targets.push_back(done);
  if (ordered) last_ = {done};
}

// ---- from the forward pass to the backward pass

void Passes::begin_backward() {
  forward_ = graph_.operations();
  last_.clear();
}

void Passes::finish_backward(int threads, size_t results) {
  results_ = results;
  feed_backward();
  session_ = std::make_unique<Session>(graph_, threads, inter_op_threads_);
}

// What operations of the backward pass take from those of the forward pass is fetched there and fed here. What is fed
// to the backward pass alone is in its inputs already.
void Passes::feed_backward() {
  const std::set<TF_Operation*> outside(forward_.begin(), forward_.end());
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
  std::map<size_t, Output> fetched;
  for (const Output value : taken) {
    const auto is_value = [&](Output one) { return same(one, value); };
    if (std::ranges::any_of(backward_.inputs, is_value)) continue;
    const auto known = std::ranges::find_if(training_.inputs, is_value);
    if (known != training_.inputs.end()) {
      backward_.add_input(value, *training_.sources[static_cast<size_t>(known - training_.inputs.begin())]);
      continue;
    }
    const auto place = std::ranges::find_if(training_.fetches, is_value);
    fetched[static_cast<size_t>(place - training_.fetches.begin())] = value;
    if (place == training_.fetches.end()) training_.fetches.push_back(value);
  }
  kept_.resize(training_.fetches.size());
  for (const auto& [place, value] : fetched) backward_.add_input(value, kept_[place]);
}

}  // namespace mlbench::framework::tensorflow_framework
