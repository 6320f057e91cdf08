#include "mlbench/framework/native/graph/graph_network.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/tensors/token_inputs.h"

namespace mlbench::framework::native_framework {

namespace {

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
  Values values = token_inputs(model_, batch);
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
  const at::Tensor targets = hidden.of_rows(integers_of(batch.at(model_.loss.targets)));
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
  const auto values = std::make_shared<Values>(token_inputs(model_, sources));
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
  values[model_.decoder_input] = {tokens, plan_of_one_position(tokens.size(0)), false};
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
