#include "mlbench/framework/tensorflow/sequence_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/tensorflow/graph_layers.h"
#include "mlbench/framework/tensorflow/losses.h"
#include "mlbench/framework/tensors/graph_order.h"
#include "mlbench/models/layer_kinds.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

at::Tensor tensor_of(const Tensor& fetched) {
  std::vector<int64_t> shape;
  for (int i = 0; i < library().TF_NumDims(fetched.get()); ++i) shape.push_back(library().TF_Dim(fetched.get(), i));
  at::Tensor values = at::empty(shape, at::kFloat);
  MLBENCH_CHECK(library().TF_TensorByteSize(fetched.get()) == values.nbytes(), "a fetched value is not of float32");
  std::memcpy(values.data_ptr(), library().TF_TensorData(fetched.get()), values.nbytes());
  return values;
}

// A tensor over float32 or int64 values that must outlive it.
Tensor alias_of(const at::Tensor& values) {
  const TF_DataType type = values.scalar_type() == at::kLong ? TF_INT64 : TF_FLOAT;
  return alias(type, values.sizes().vec(), values.const_data_ptr(), values.nbytes());
}

}  // namespace

SequenceNetwork::SequenceNetwork(const NetworkContext& context) : Passes(context) {
  require_token_loss(model_);
  const models::LayerSpec& last = model_.layers.back();
  MLBENCH_CHECK(last.kind == "linear", "a model over tokens ends in a linear layer, " + last.name + " is none");
  for (const std::string& name : model_.inputs) {
    // Tokens are a layer's first input, and lengths are a later one.
    const auto takes = [&](const models::LayerSpec& layer) { return layer.inputs.front() == name; };
    const size_t rank = std::ranges::any_of(model_.layers, takes) ? 2 : 1;
    inputs_[name].input = graph_.placeholder(TF_INT64, Shape(rank, -1));
  }
  inputs_[model_.loss.targets].input = graph_.placeholder(TF_INT64, {-1, -1});
  loss_scale_.input = graph_.placeholder(TF_FLOAT, {});
  penalty_scale_.input = graph_.placeholder(TF_FLOAT, {});
  const BuiltPass evaluated = build_pass(evaluation_, false, evaluated_);
  if (!model_.decoder_input.empty()) build_decoding(evaluated.values);
  const BuiltPass pass = build_pass(training_, true, trained_);
  begin_backward();
  build_backward(pass);
  finish_backward(context.options.threads, 2);
}

// ---- passes

void SequenceNetwork::forward(const BatchView& batch, bool training, const DrawMask& draw) {
  Carried& carried = training ? trained_ : evaluated_;
  if (!batch.continues) carried.states.clear();
  carried.states.resize(model_.layers.size());
  feed_batch(batch);
  feed_states(carried);
  run_forward(training, draw);
  keep_states(carried);
  const auto sum = [](std::span<const float> values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  sums_.loss = sum(values_of(kept_[0]));
  sums_.nll = sum(values_of(kept_[1]));
  penalty_ = 0;
  for (size_t i = 0; training && i < model_.penalties.size(); ++i) penalty_ += sum(values_of(kept_[penalties_ + i]));
}

void SequenceNetwork::feed_tensor(const std::string& name, const BatchTensor& tensor) {
  MLBENCH_CHECK(
      tensor.values.dtype == DType::kInt64 && tensor.values.count == volume_of(tensor.shape),
      fmt::format("tensor '{}' of {} elements of {}", name, tensor.values.count, name_of(tensor.values.dtype)));
  shapes_[name] = tensor.shape;
  inputs_.at(name).tensor =
      alias(TF_INT64, tensor.shape, tensor.values.data, static_cast<size_t>(tensor.values.count) * sizeof(int64_t));
}

void SequenceNetwork::feed_batch(const BatchView& batch) {
  for (const auto& [name, fed] : inputs_) feed_tensor(name, batch.at(name));
  for (const models::LayerSpec& layer : model_.layers) {
    shapes_[layer.output] = models::find_layer_kind(layer.kind).output(layer, input_shapes(layer));
  }
  const ConstBufferView& targets = batch.at(model_.loss.targets).values;
  const std::span ids(static_cast<const int64_t*>(targets.data), static_cast<size_t>(targets.count));
  sums_.weight = targets.count - std::ranges::count(ids, model_.loss.ignored);
}

std::vector<SequenceNetwork::Shape> SequenceNetwork::input_shapes(const models::LayerSpec& layer) const {
  std::vector<Shape> shapes;
  for (const std::string& value : layer.inputs) shapes.push_back(shapes_.at(value));
  return shapes;
}

void SequenceNetwork::feed_states(Carried& carried) {
  for (StatePlace& place : carried.places) {
    const models::LayerSpec& layer = model_.layers[place.layer];
    const Shape shape = {shapes_.at(layer.inputs[0])[1], layer.options.at("hidden").get<int64_t>()};
    place.start = carried.states[place.layer];
    if (place.start.rows.empty()) place.start.rows.assign(2, at::zeros(shape, at::kFloat));
    MLBENCH_CHECK(place.start.rows[0].sizes() == at::IntArrayRef(shape),
                  "a carried state of another number of sequences");
    place.hidden.tensor = alias_of_floats(shape, place.start.rows[0].const_data_ptr<float>());
    place.cells.tensor = alias_of_floats(shape, place.start.rows[1].const_data_ptr<float>());
  }
}

void SequenceNetwork::keep_states(Carried& carried) const {
  for (const StatePlace& place : carried.places) {
    std::vector<at::Tensor> rows;
    for (const Tensor* fetched : {&kept_[place.fetched], &kept_[place.fetched + 1]}) {
      rows.push_back(at::empty_like(place.start.rows[0]));
      std::ranges::copy(values_of(*fetched), rows.back().data_ptr<float>());
    }
    carried.states[place.layer].rows = std::move(rows);
  }
}

void SequenceNetwork::backward(double scale) {
  const auto of_sum = static_cast<float>(scale / static_cast<double>(sums_.weight));
  const auto of_penalties = static_cast<float>(scale);
  loss_scale_.tensor = alias_of_floats({}, &of_sum);
  penalty_scale_.tensor = alias_of_floats({}, &of_penalties);
  run_backward();
}

void SequenceNetwork::set_carried_state(std::span<const float> state, int64_t sequences) {
  trained_.states = states_of(model_, state, sequences, at::kCPU);
}

// ---- decoding

EncodedSources SequenceNetwork::encode(const BatchView& sources) {
  for (const std::string& name : model_.inputs) {
    if (name != model_.decoder_input) feed_tensor(name, sources.at(name));
  }
  std::vector<at::Tensor> memory;
  for (const Tensor& fetched : run(decoding_.encode)) memory.push_back(tensor_of(fetched));
  return {at::kCPU, 1, [this, memory](const at::Tensor& tokens, DecodePass& pass) mutable {
            return decode(tokens, std::exchange(memory, {}), pass);  // the state has it from the first step on
          }};
}

// One state has what all layers keep.
at::Tensor SequenceNetwork::decode(const at::Tensor& tokens, const std::vector<at::Tensor>& memory, DecodePass& pass) {
  LayerState& state = pass.states[0];
  if (pass.position == 0) {
    for (const at::Tensor& one : memory) state.memory.push_back(one.repeat_interleave(pass.rows_per_sample, 0));
    for (Shape shape : decoding_.row_shapes) {
      shape.insert(shape.begin(), tokens.size(0));
      state.rows.push_back(at::zeros(shape, at::kFloat));
    }
  }
  const at::Tensor column = tokens.unsqueeze(1);
  inputs_.at(model_.decoder_input).tensor = alias_of(column);
  decoding_.position.tensor = alias(TF_INT64, {}, &pass.position, sizeof(pass.position));
  for (size_t i = 0; i < state.memory.size(); ++i) decoding_.memory[i].tensor = alias_of(state.memory[i]);
  for (size_t i = 0; i < state.rows.size(); ++i) decoding_.rows[i].tensor = alias_of(state.rows[i]);
  const std::vector<Tensor> fetched = run(decoding_.step);
  for (size_t i = 0; i < state.rows.size(); ++i) state.rows[i] = tensor_of(fetched[i + 1]);
  if (decoding_.attention.oper != nullptr) pass.attention = tensor_of(fetched.back()).squeeze(1);
  ++pass.position;
  return tensor_of(fetched[0]);
}

// ---- the graph

LayerContext SequenceNetwork::graph_context(Run& run, bool training, Carried& carried) {
  LayerContext context = context_for(run, training);
  context.mask = [this, &run](const LayerInput& in, double p, const MaskShape& mask_shape) {
    const std::vector<Shape> any(in.layer.inputs.size(), Shape(3, -1));
    const auto shape = [this, mask_shape, &layer = in.layer] { return mask_shape(input_shapes(layer)); };
    return mask_of(in.index, p, mask_shape(any), shape, run);
  };
  context.carried = [this, &run, &carried](const LayerInput& in) -> LstmState {
    StatePlace& place = carried.places.emplace_back();
    place.layer = in.index;
    const Shape shape = {-1, in.layer.options.at("hidden").get<int64_t>()};
    for (Fed* fed : {&place.hidden, &place.cells}) {
      fed->input = graph_.placeholder(TF_FLOAT, shape);
      run.feed(*fed);
    }
    return {place.hidden.input, place.cells.input};
  };
  context.carry = [&run, &carried](const LstmState& state) {
    carried.places.back().fetched = run.fetches.size();
    run.fetches.insert(run.fetches.end(), {state.hidden, state.cells});
  };
  return context;
}

SequenceNetwork::BuiltPass SequenceNetwork::build_pass(Run& run, bool training, Carried& carried) {
  BuiltPass pass;
  std::map<std::string, Output>& values = pass.values;
  for (const auto& [name, fed] : inputs_) {
    run.feed(fed);
    values[name] = fed.input;
  }
  run.fetches.resize(2);
  const LayerContext context = graph_context(run, training, carried);
  for (size_t i = 0; i + 1 < model_.layers.size(); ++i) {
    const models::LayerSpec& layer = model_.layers[i];
    std::vector<Output> inputs;
    for (const std::string& value : layer.inputs) inputs.push_back(after_last_layer(values.at(value)));
    pass.layers.push_back(
        build_graph_layer({layer, i, inputs[0], {}, {inputs.begin() + 1, inputs.end()}}, context, model_.name));
    const Output output = pass.layers.back().output;
    if (training) note_done(layer.name, LayerPass::kForward, {}, {output});
    values[layer.output] = output;
  }
  const models::LayerSpec& last = model_.layers.back();
  pass.last = build_loss(run, after_last_layer(values.at(last.inputs[0])));
  if (training) note_done(last.name + "+loss", LayerPass::kForward, {}, {run.fetches[0]});
  penalties_ = run.fetches.size();
  for (const std::string& name : model_.penalties) {
    if (training) run.fetches.push_back(values.at(name));
  }
  return pass;
}

// The scale meets the rows rather than the logits, of which there are many more.
std::function<LayerGradients(Output scale)> SequenceNetwork::build_loss(Run& run, Output hidden) {
  const models::LayerSpec& layer = model_.layers.back();
  const bool biased = layer.options.value("bias", true);
  const std::string weight_name = models::parameter_name(layer, "weight"), bias = models::parameter_name(layer, "bias");
  const auto product = [this](Output a, Output b, const char* transposed) {
    OperationWriter writer = graph_.operation("MatMul").input(a).input(b);
    return transposed == nullptr ? writer.output() : writer.set(transposed, true).output();
  };
  const Output weight = value_of(weight_name, run);
  const Output rows = rows_of(hidden), logits = logits_of(run, rows);
  const Output targets = graph_.binary("Reshape", inputs_.at(model_.loss.targets).input, graph_.integers({-1}));
  const BuiltTokenLoss loss = build_token_loss(graph_, model_, logits, targets);
  run.fetches[0] = loss.values;
  run.fetches[1] = loss.nll;
  return [=, this](Output scale) {
    const Output factors = graph_.binary("ExpandDims", graph_.binary("Mul", loss.counted, scale), graph_.integer(1));
    LayerGradients gradients;
    if (biased) {
      const Output column = product(loss.gradient, factors, "transpose_a");
      gradients.parameters.push_back({bias, graph_.binary("Reshape", column, graph_.integers({-1}))});
    }
    gradients.parameters.push_back(
        {weight_name, product(loss.gradient, graph_.binary("Mul", rows, factors), "transpose_a")});
    const Output of_rows = graph_.binary("Mul", product(loss.gradient, weight, nullptr), factors);
    gradients.inputs = {graph_.binary("Reshape", of_rows, graph_.unary("Shape", hidden))};
    return gradients;
  };
}

Output SequenceNetwork::rows_of(Output hidden) {
  const auto features = model_.layers.back().options.at("in").get<int32_t>();
  return graph_.binary("Reshape", hidden, graph_.integers({-1, features}));
}

Output SequenceNetwork::logits_of(Run& run, Output rows) {
  const models::LayerSpec& layer = model_.layers.back();
  const Output weight = value_of(models::parameter_name(layer, "weight"), run);
  const Output logits = graph_.operation("MatMul").input(rows).input(weight).set("transpose_b", true).output();
  if (!layer.options.value("bias", true)) return logits;
  return graph_.binary("BiasAdd", logits, value_of(models::parameter_name(layer, "bias"), run));
}

Output SequenceNetwork::rows_before(const Shape& first) {
  Shape any = first;
  std::ranges::replace(any, 0, -1);
  any.insert(any.begin(), -1);
  const Fed& before = decoding_.rows.emplace_back(Fed{graph_.placeholder(TF_FLOAT, any), nullptr});
  decoding_.row_shapes.push_back(first);
  decoding_.step.feed(before);
  return before.input;
}

DecodeContext SequenceNetwork::decode_context() {
  decoding_.position.input = graph_.placeholder(TF_INT64, {});
  decoding_.step.feed(decoding_.position);
  DecodeContext context{decoding_.position.input, {}, {}, {}};
  context.from_sources = [this](Output x) {
    decoding_.encode.fetches.push_back(x);
    decoding_.step.feed(decoding_.memory.emplace_back(Fed{x, nullptr}));
    return x;
  };
  context.grown = [this](Output x, int64_t heads, int64_t width) {
    const Output before = rows_before({heads, 0, width});
    const Output grown = graph_.operation("ConcatV2").inputs({before, x}).input(graph_.integer(2)).output();
    decoding_.step.fetches.push_back(grown);
    return grown;
  };
  context.attention = [this](Output weights) { decoding_.attention = weights; };
  return context;
}

void SequenceNetwork::build_decoding(std::map<std::string, Output> values) {
  std::vector<GraphOrder::Step> steps;
  for (size_t i = 0; i + 1 < model_.layers.size(); ++i) {
    steps.push_back({model_.layers[i].inputs, model_.layers[i].output});
  }
  const GraphOrder order(model_, std::move(steps));
  for (const std::string& name : model_.inputs) {
    (name == model_.decoder_input ? decoding_.step : decoding_.encode).feed(inputs_.at(name));
  }
  decoding_.step.fetches.resize(1);
  const DecodeContext decode = decode_context();
  LayerContext context = context_for(decoding_.step, false);
  context.decode = &decode;
  context.carried = [this](const LayerInput& in) -> LstmState {
    const Shape row = {in.layer.options.at("hidden").get<int64_t>()};
    return {rows_before(row), rows_before(row)};
  };
  context.carry = [this](const LstmState& state) {
    decoding_.step.fetches.insert(decoding_.step.fetches.end(), {state.hidden, state.cells});
  };
  for (size_t i = 0; i + 1 < model_.layers.size(); ++i) {
    if (!order.decodes(i)) continue;
    const models::LayerSpec& layer = model_.layers[i];
    std::vector<Output> inputs;
    for (const std::string& value : layer.inputs) inputs.push_back(values.at(value));
    values[layer.output] =
        build_graph_layer({layer, i, inputs[0], {}, {inputs.begin() + 1, inputs.end()}}, context, model_.name).output;
  }
  const Output rows = rows_of(values.at(model_.layers.back().inputs[0]));
  decoding_.step.fetches[0] = graph_.unary("LogSoftmax", logits_of(decoding_.step, rows));
  if (decoding_.attention.oper != nullptr) decoding_.step.fetches.push_back(decoding_.attention);
  feed_values(decoding_.encode);
}

void SequenceNetwork::build_backward(const BuiltPass& pass) {
  std::map<std::string, std::vector<Output>> parts;  // of the gradients of values
  const auto take = [&](const models::LayerSpec& layer, const std::string& label, const LayerGradients& gradients) {
    note_done(label, LayerPass::kBackward, gradients, gradients.inputs);
    for (size_t i = 0; i < gradients.inputs.size(); ++i) {
      if (gradients.inputs[i].oper != nullptr) parts[layer.inputs[i]].push_back(gradients.inputs[i]);
    }
  };
  backward_.feed(loss_scale_);
  if (!model_.penalties.empty()) backward_.feed(penalty_scale_);
  for (const std::string& name : model_.penalties) parts[name].push_back(penalty_scale_.input);
  const models::LayerSpec& last = model_.layers.back();
  take(last, last.name + "+loss", pass.last(loss_scale_.input));
  for (size_t i = pass.layers.size(); i-- > 0;) {
    const models::LayerSpec& layer = model_.layers[i];
    const std::vector<Output>& of_output = parts[layer.output];
    if (of_output.empty()) continue;
    const Output dy = of_output.size() == 1 ? of_output[0] : graph_.operation("AddN").inputs(of_output).output();
    const bool reads_batch = inputs_.contains(layer.inputs[0]);
    take(layer, layer.name, pass.layers[i].backward(after_last_layer(dy), !reads_batch));
  }
}

}  // namespace mlbench::framework::tensorflow_framework
