#include "mlbench/framework/torch/sequence_model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/autograd.h>

#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/tensors/token_inputs.h"

namespace mlbench::framework::torch_framework {

namespace {

std::vector<GraphOrder::Step> steps_of(const models::ModelDescription& model) {
  std::vector<GraphOrder::Step> steps;
  for (size_t i = 0; i + 1 < model.layers.size(); ++i)
    steps.push_back({model.layers[i].inputs, model.layers[i].output});
  return steps;
}

}  // namespace

SequenceModel::SequenceModel(const BuildContext& context)
    : model_(context.model),
      times_(context.times),
      order_(model_, steps_of(model_)),
      carried_(context.model.layers.size()),
      evaluated_(context.model.layers.size()) {
  const models::LayerSpec& last = model_.layers.back();
  MLBENCH_CHECK(last.kind == "linear", "a model over tokens ends in a linear layer, " + last.name + " is none");
  for (size_t i = 0; i + 1 < model_.layers.size(); ++i) {
    const models::LayerSpec& layer = model_.layers[i];
    steps_.push_back({&layer, make_graph_operation(layer, i, context), times_.name(layer.name)});
  }
  TokenLossOptions of_loss{model_.loss,
                           context.parameter(models::parameter_name(last, "weight")),
                           {},
                           context.product_type,
                           context.on_host};
  if (last.options.value("bias", true)) of_loss.bias = context.parameter(models::parameter_name(last, "bias"));
  loss_.emplace(of_loss, context.gradients);
  loss_name_ = times_.name(last.name + "+loss");
}

GraphValue SequenceModel::run(const Step& step, Values& values, GraphPass& pass) const {
  std::vector<GraphValue> inputs;
  for (const std::string& value : step.layer->inputs) {
    const auto found = values.find(value);
    // A decoder no longer has a value that its layer has used to make a state of its own.
    inputs.push_back(found != values.end() ? found->second : GraphValue());
  }
  GraphValue output;
  output.data = times_.forward(step.name, pass.pass.training, inputs[0].data, [&] {
    output = step.operation(inputs, pass);
    return output.data;
  });
  return output;
}

void SequenceModel::forward(const Values& inputs, const at::Tensor& targets, const Pass& pass, bool continues) {
  Values values = inputs;
  std::vector<LayerState>& states = pass.training ? carried_ : evaluated_;
  if (!continues) states.assign(states.size(), {});
  GraphPass graph{pass, &states, nullptr};
  for (size_t i = 0; i < steps_.size(); ++i) {
    GraphValue output = run(steps_[i], values, graph);
    for (const std::string& value : order_.last_uses(i)) values.erase(value);
    values.emplace(steps_[i].layer->output, std::move(output));
  }
  const GraphValue& hidden = values.at(model_.layers.back().inputs[0]);
  hidden_ = hidden.data;
  penalty_ = at::Tensor();
  penalty_value_ = 0;
  if (pass.training) {
    for (const std::string& name : model_.penalties) {
      const at::Tensor& one = values.at(name).data;
      penalty_ = penalty_.defined() ? penalty_ + one : one;
    }
    if (penalty_.defined()) penalty_value_ = penalty_.item<double>();
  }
  times_.forward(loss_name_, pass.training, hidden_, [&] {
    sums_ = loss_->forward(hidden_, hidden.of_rows(targets), pass.training);
    return hidden_;
  });
}

double SequenceModel::mean_loss() const { return sums_.loss / static_cast<double>(sums_.weight) + penalty_value_; }

void SequenceModel::backward(double scale) {
  std::vector<at::Tensor> outputs = {hidden_};
  std::vector<at::Tensor> gradients = {loss_->backward(scale / static_cast<double>(sums_.weight))};
  if (penalty_.defined()) {
    outputs.push_back(penalty_);
    gradients.push_back(at::scalar_tensor(scale, penalty_.options().requires_grad(false)));
  }
  torch::autograd::backward(outputs, gradients);
  hidden_ = at::Tensor();
  penalty_ = at::Tensor();
}

std::vector<float> SequenceModel::carried_state() const { return values_of(carried_); }

void SequenceModel::set_carried_state(std::span<const float> state, int64_t sequences, const at::Device& device) {
  carried_ = states_of(model_, state, sequences, device);
}

std::vector<std::string> SequenceModel::kernels(at::ScalarType product_type, const at::Device& device) {
  return {"linear+token_cross_entropy",
          "products: " + (device.is_cpu() ? product_kernels_name(product_type) : "LibTorch")};
}

SequenceModel::Values SequenceModel::encode(const Values& sources) const {
  const at::NoGradGuard nothing_to_differentiate;
  Values values = sources;
  GraphPass pass;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!order_.decodes(i)) values[steps_[i].layer->output] = run(steps_[i], values, pass);
    for (const std::string& value : order_.last_uses(i)) {
      if (!order_.is_needed_by_decoder(value)) values.erase(value);
    }
  }
  return values;
}

at::Tensor SequenceModel::decode(const at::Tensor& tokens, const Values& encoded, DecodePass& decode) const {
  const at::NoGradGuard nothing_to_differentiate;
  Values values = encoded;
  values[model_.decoder_input] = {tokens, plan_of_one_position(tokens.size(0), tokens.device()), false};
  GraphPass pass{{}, nullptr, &decode};
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (order_.decodes(i)) values[steps_[i].layer->output] = run(steps_[i], values, pass);
  }
  ++decode.position;
  return at::log_softmax(loss_->logits(values.at(model_.layers.back().inputs[0]).data), 1);
}

}  // namespace mlbench::framework::torch_framework
