#include "mlbench/framework/native/graph/graph_network.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework::native_framework {

namespace {

const int64_t* integers_of(const BatchTensor& tensor) {
  const ConstBufferView& view = tensor.values;
  MLBENCH_CHECK(view.dtype == DType::kInt64 && tensor.dense() && view.count == volume_of(tensor.shape),
                fmt::format("tensor '{}' of {} elements of {}", tensor.name, view.count, name_of(view.dtype)));
  return static_cast<const int64_t*>(view.data);
}

// The number of positions of each sentence that count. Positions after the last target that counts are left out: no
// earlier position sees them, as the decoder reads from left to right.
std::vector<int64_t> counted_lengths(const BatchTensor& targets, int64_t ignored) {
  const int64_t* ids = integers_of(targets);
  const int64_t sentences = targets.shape[0], positions = targets.shape[1];
  std::vector<int64_t> lengths(static_cast<size_t>(sentences), positions);
  for (int64_t s = 0; s < sentences; ++s) {
    int64_t& length = lengths[static_cast<size_t>(s)];
    while (length > 0 && ids[s * positions + length - 1] == ignored) --length;
  }
  return lengths;
}

const models::ModelDescription& with_known_loss(const models::ModelDescription& model) {
  if (model.loss.kind == "token_cross_entropy") return model;
  throw UserError(fmt::format("framework 'native' has no loss '{}' for a model over tokens; valid: token_cross_entropy",
                              model.loss.kind));
}

std::vector<GraphOrder::Step> order_of(const std::vector<GraphStep>& made) {
  std::vector<GraphOrder::Step> steps;
  for (const GraphStep& step : made) steps.push_back({step.inputs, step.output});
  return steps;
}

}  // namespace

GraphNetwork::GraphNetwork(const GraphContext& context)
    : model_(with_known_loss(context.model)),
      steps_(make_graph_steps(context)),
      order_(model_, order_of(steps_)),
      carried_(context.model.layers.size()),
      evaluated_(context.model.layers.size()) {
  const models::LayerSpec& last = model_.layers.back();
  MLBENCH_CHECK(last.kind == "linear", "a model over tokens ends in a linear layer, " + last.name + " is none");
  TokenLossOptions loss{model_.loss, context.of(last, "weight"), {}, context.product_type, true};
  if (last.options.value("bias", true)) loss.bias = context.of(last, "bias");
  loss_.emplace(loss, context.gradients);
  loss_name_ = last.name + "+loss";
}

GraphValue GraphNetwork::tokens_of(const BatchView& batch, const BatchTensor& tensor) const {
  const int64_t* ids = integers_of(tensor);
  GraphValue value;
  if (tensor.shape.size() == 1) {
    value.data = at::tensor(at::ArrayRef<int64_t>(ids, static_cast<size_t>(tensor.values.count)));
    return value;
  }
  MLBENCH_CHECK(tensor.shape.size() == 2, "tokens are a matrix");
  const BatchTensor* lengths = batch.find(tensor.name + "_lengths");
  const bool read = std::ranges::find(model_.inputs, tensor.name + "_lengths") != model_.inputs.end();
  const BatchTensor* targets = batch.find(model_.loss.targets);
  if (read && lengths != nullptr) {
    const int64_t* of_sentences = integers_of(*lengths);
    MLBENCH_CHECK(lengths->shape[0] == tensor.shape[0], "lengths of another number of sentences");
    value.plan = std::make_shared<const RowPlan>(std::vector<int64_t>(of_sentences, of_sentences + tensor.shape[0]),
                                                 tensor.shape[1], RowPlan::Order::kBySequence);
  } else if (tensor.name == model_.decoder_input && model_.loss.ignored >= 0 && targets != nullptr) {
    MLBENCH_CHECK(targets->shape == tensor.shape, "targets of another shape than the tokens before them");
    value.plan = std::make_shared<const RowPlan>(counted_lengths(*targets, model_.loss.ignored), tensor.shape[1],
                                                 RowPlan::Order::kBySequence);
  } else {
    // Columns of a stream, without padding.
    value.positions_first = true;
    value.plan =
        std::make_shared<const RowPlan>(std::vector<int64_t>(static_cast<size_t>(tensor.shape[1]), tensor.shape[0]),
                                        tensor.shape[0], RowPlan::Order::kByPosition);
  }
  value.data = at::empty({value.plan->rows()}, at::kLong);
  for (int64_t row = 0; row < value.plan->rows(); ++row) {
    const int64_t id = ids[value.place(row)];
    MLBENCH_CHECK(id >= 0 && id < model_.outputs,
                  fmt::format("'{}' has the token {}, the vocabulary {}", tensor.name, id, model_.outputs));
    value.data.data_ptr<int64_t>()[row] = id;
  }
  return value;
}

GraphNetwork::Values GraphNetwork::inputs_of(const BatchView& batch) const {
  Values values;
  for (const std::string& name : model_.inputs) {
    if (const BatchTensor* tensor = batch.find(name)) values.emplace(name, tokens_of(batch, *tensor));
  }
  return values;
}

void GraphNetwork::run(GraphStep& step, Values& values, const GraphPass& pass) {
  GraphLayer::Inputs inputs;
  for (const std::string& value : step.inputs) {
    const auto found = values.find(value);
    // A decoder no longer has a value that its layer has used to make a state of its own.
    inputs.push_back(found != values.end() ? &found->second : nullptr);
  }
  const TimePoint begin = clock_ != nullptr ? clock_->now() : TimePoint();
  GraphValue output = step.layer->forward(inputs, pass);
  if (clock_ != nullptr && pass.training) done_({step.name, LayerPass::kForward, begin, clock_->now()});
  values[step.output] = std::move(output);
}

void GraphNetwork::forward(const BatchView& batch, GraphPass pass) {
  const at::NoGradGuard nothing_to_differentiate;
  Values values = inputs_of(batch);
  std::vector<LayerState>& states = pass.training ? carried_ : evaluated_;
  if (!batch.continues) states.assign(states.size(), {});
  pass.carried = &states;
  for (size_t i = 0; i < steps_.size(); ++i) {
    run(steps_[i], values, pass);
    for (const std::string& value : order_.last_uses(i)) values.erase(value);
  }
  penalty_ = 0;
  if (pass.training) {
    for (const std::string& name : model_.penalties) penalty_ += values.at(name).data.item<double>();
  }
  const GraphValue& hidden = values.at(model_.layers.back().inputs[0]);
  const BatchTensor& of_batch = batch.at(model_.loss.targets);
  const int64_t* all = integers_of(of_batch);
  const at::Tensor targets = at::empty({hidden.data.size(0)}, at::kLong);
  for (int64_t row = 0; row < targets.size(0); ++row) targets.data_ptr<int64_t>()[row] = all[hidden.place(row)];
  const TimePoint begin = clock_ != nullptr ? clock_->now() : TimePoint();
  sums_ = loss_->forward(hidden.data, targets, pass.training);
  if (clock_ != nullptr && pass.training) done_({loss_name_, LayerPass::kForward, begin, clock_->now()});
}

double GraphNetwork::mean_loss() const { return sums_.loss / static_cast<double>(sums_.weight) + penalty_; }

void GraphNetwork::backward(double scale) {
  const at::NoGradGuard nothing_to_differentiate;
  const auto timed = [this](const std::string& name, const auto& work) {
    const TimePoint begin = clock_ != nullptr ? clock_->now() : TimePoint();
    auto result = work();
    if (clock_ != nullptr) done_({name, LayerPass::kBackward, begin, clock_->now()});
    return result;
  };
  std::map<std::string, at::Tensor> gradients;
  const auto add = [&](const std::string& value, const at::Tensor& part) {
    at::Tensor& sum = gradients[value];
    // The sum is a new tensor, as layers may return the same tensor for several inputs.
    sum = sum.defined() ? sum + part : part;
  };
  for (const std::string& name : model_.penalties) add(name, at::scalar_tensor(scale, at::kFloat));
  add(model_.layers.back().inputs[0],
      timed(loss_name_, [&] { return loss_->backward(scale / static_cast<double>(sums_.weight)); }));
  const auto is_input = [this](const std::string& value) {
    return std::ranges::find(model_.inputs, value) != model_.inputs.end();
  };
  for (size_t i = steps_.size(); i-- > 0;) {
    GraphStep& step = steps_[i];
    const auto found = gradients.find(step.output);
    if (found == gradients.end()) continue;
    const at::Tensor dy = std::exchange(found->second, {});
    gradients.erase(found);
    std::vector<bool> wanted;
    for (const std::string& value : step.inputs) wanted.push_back(!is_input(value));
    const std::vector<at::Tensor> parts = timed(step.name, [&] { return step.layer->backward(dy, wanted); });
    for (size_t input = 0; input < parts.size(); ++input) {
      if (wanted[input] && parts[input].defined()) add(step.inputs[input], parts[input]);
    }
  }
}

std::vector<float> GraphNetwork::carried_state() const { return values_of(carried_); }

void GraphNetwork::set_carried_state(std::span<const float> state, int64_t sequences) {
  carried_ = states_of(model_, state, sequences, at::kCPU);
}

EncodedSources GraphNetwork::encode(const BatchView& sources) {
  const at::NoGradGuard nothing_to_differentiate;
  const auto values = std::make_shared<Values>(inputs_of(sources));
  values->erase(model_.decoder_input);
  const GraphPass pass;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!order_.decodes(i)) run(steps_[i], *values, pass);
    for (const std::string& value : order_.last_uses(i)) {
      if (!order_.is_needed_by_decoder(value)) values->erase(value);
    }
  }
  return {at::kCPU, model_.layers.size(), [this, values](const at::Tensor& tokens, DecodePass& decoding) {
            at::Tensor log_probabilities = decode(tokens, *values, decoding);
            values->clear();  // the layers' states now have all that they need of the values
            return log_probabilities;
          }};
}

at::Tensor GraphNetwork::decode(const at::Tensor& tokens, const Values& encoded, DecodePass& decoding) {
  const at::NoGradGuard nothing_to_differentiate;
  Values values = encoded;
  values[model_.decoder_input] = {
      tokens,
      std::make_shared<const RowPlan>(std::vector<int64_t>(static_cast<size_t>(tokens.size(0)), 1), 1,
                                      RowPlan::Order::kBySequence),
      false};
  GraphPass pass;
  pass.decode = &decoding;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (order_.decodes(i)) run(steps_[i], values, pass);
  }
  ++decoding.position;
  return at::log_softmax(loss_->logits(values.at(model_.layers.back().inputs[0]).data), 1);
}

void GraphNetwork::on_layer(const Clock& clock, Framework::LayerDone done) {
  clock_ = done ? &clock : nullptr;
  done_ = std::move(done);
}

std::vector<std::string> GraphNetwork::fused() const {
  return {"linear+relu+dropout", "dropout+add", "attention", "linear+token_cross_entropy"};
}

}  // namespace mlbench::framework::native_framework
