#include "mlbench/framework/tensorflow/network.h"

#include <algorithm>
#include <utility>

#include "mlbench/framework/tensorflow/losses.h"
#include "mlbench/models/layer_kinds.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

std::vector<int64_t> batched(int64_t samples, const std::vector<int64_t>& shape) {
  std::vector<int64_t> all = {samples};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

bool has_parameters(const models::LayerSpec& layer) {
  const auto any = [](const std::vector<models::LayerSpec>& chain) {
    return std::ranges::any_of(chain, has_parameters);
  };
  return any(layer.body) || any(layer.shortcut) || !models::find_layer_kind(layer.kind).parameters(layer).empty();
}

const std::string& label_of(const models::LayerSpec& layer) { return layer.name.empty() ? layer.kind : layer.name; }

}  // namespace

Network::Network(const NetworkContext& context) : Passes(context), buffers_(context.buffers) {
  features_.input = graph_.placeholder(TF_FLOAT, batched(-1, model_.input_shape));
  labels_.input = graph_.placeholder(TF_INT64, {-1});
  scale_.input = graph_.placeholder(TF_FLOAT, {});
  build_pass(evaluation_, false, nullptr);
  Output loss_gradient;
  const BuiltChain chain = build_pass(training_, true, &loss_gradient);
  begin_backward();
  backward_.feed(scale_);
  build_chain_backward(chain, graph_.binary("Mul", loss_gradient, scale_.input), false);
  finish_backward(context.options.threads, 2);
}

void Network::forward(const NetworkBatch& batch, bool training, const DrawMask& draw) {
  samples_ = batch.samples;
  features_.tensor = alias_of_floats(batched(batch.samples, model_.input_shape), batch.features);
  labels_.tensor = alias(TF_INT64, {batch.samples}, batch.labels, static_cast<size_t>(batch.samples) * sizeof(int64_t));
  run_forward(training, draw);
  if (training) average_statistics();
}

void Network::backward(double scale) {
  const auto of_sum = static_cast<float>(scale / static_cast<double>(samples_));
  scale_.tensor = alias_of_floats({}, &of_sum);
  run_backward();
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

LayerContext Network::chain_context(Run& run, bool training) {
  LayerContext context = context_for(run, training);
  context.mask = [this, &run](const LayerInput& in, double p, const MaskShape& mask_shape) {
    const auto shape = [this, mask_shape, one = in.shape] { return mask_shape({batched(samples_, one)}); };
    return mask_of(in.index, p, mask_shape({batched(-1, in.shape)}), shape, run);
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
  run.feed(features_);
  run.feed(labels_);
  run.fetches.resize(2);
  Output x = features_.input;
  if (model_.input_shape.size() == 3) x = graph_.binary("Transpose", x, graph_.integers({0, 2, 3, 1}));
  BuiltChain chain = build_chain(model_.layers, x, model_.input_shape, chain_context(run, training));
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
    if (context.training) note_done(label_of(specs[i]), LayerPass::kForward, {}, {chain.output});
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
    if (input_wanted) gradients.inputs = {graph_.binary("AddV2", of_body, of_shortcut)};
    return gradients;
  };
  return {sum, backward};
}

// ---- backward

Output Network::build_chain_backward(const BuiltChain& chain, Output dy, bool input_wanted) {
  const auto begin = chain.specs.begin();
  const auto first = std::ranges::find_if(chain.specs, has_parameters) - begin;
  for (auto i = static_cast<std::ptrdiff_t>(chain.layers.size()); i-- > 0;) {
    if (!input_wanted && i < first) return {nullptr, 0};
    const LayerGradients gradients =
        chain.layers[static_cast<size_t>(i)].backward(after_last_layer(dy), input_wanted || i > first);
    note_done(label_of(chain.specs[static_cast<size_t>(i)]), LayerPass::kBackward, gradients, gradients.inputs);
    dy = gradients.inputs.empty() ? Output{nullptr, 0} : gradients.inputs.front();
  }
  return dy;
}

}  // namespace mlbench::framework::tensorflow_framework
