#include "mlbench/models/layer_kinds.h"

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"

namespace mlbench::models {

namespace {

using Parameters = std::vector<ParameterShape>;
using Inputs = std::vector<Shape>;

int64_t option(const LayerSpec& layer, const char* name) { return layer.options.at(name).get<int64_t>(); }
bool biased(const LayerSpec& layer) { return layer.options.value("bias", true); }

// ---- parameters -----------------------------------------------------------------------------------------------------

Parameters no_parameters(const LayerSpec&) { return {}; }

Parameters conv2d_parameters(const LayerSpec& layer) {
  const int64_t kernel = option(layer, "kernel");
  Parameters all = {{"weight", {option(layer, "out"), option(layer, "in"), kernel, kernel}}};
  if (biased(layer)) all.push_back({"bias", {option(layer, "out")}, TensorUse::kVector});
  return all;
}

Parameters linear_parameters(const LayerSpec& layer) {
  Parameters all = {{"weight", {option(layer, "out"), option(layer, "in")}}};
  if (biased(layer)) all.push_back({"bias", {option(layer, "out")}, TensorUse::kVector});
  return all;
}

Parameters lstm_parameters(const LayerSpec& layer) {
  const int64_t gates = 4 * option(layer, "hidden");
  return {{"weight_ih", {gates, option(layer, "in")}},
          {"weight_hh", {gates, option(layer, "hidden")}},
          {"bias_ih", {gates}, TensorUse::kVector},
          {"bias_hh", {gates}, TensorUse::kVector}};
}

Parameters attention_parameters(const LayerSpec& layer) {
  const int64_t features = option(layer, "features");
  return {{"in_weight", {3 * features, features}}, {"out_weight", {features, features}}};
}

Parameters additive_attention_parameters(const LayerSpec& layer) {
  const int64_t units = option(layer, "units");
  return {{"query_weight", {units, option(layer, "features")}},
          {"key_weight", {units, option(layer, "memory")}},
          {"score_weight", {units}, TensorUse::kVector},
          {"score_scale", {1}, TensorUse::kVector},
          {"score_bias", {units}, TensorUse::kVector}};
}

Parameters batch_norm_parameters(const LayerSpec& layer) {
  const Shape shape = {option(layer, "channels")};
  return {{"weight", shape, TensorUse::kNorm},
          {"bias", shape, TensorUse::kNorm},
          {"running_mean", shape, TensorUse::kNorm, false},
          {"running_var", shape, TensorUse::kNorm, false}};
}

Parameters layer_norm_parameters(const LayerSpec& layer) {
  const Shape shape = {option(layer, "features")};
  return {{"weight", shape, TensorUse::kNorm}, {"bias", shape, TensorUse::kNorm}};
}

Parameters embedding_parameters(const LayerSpec& layer) {
  return {{"weight", {option(layer, "vocabulary"), option(layer, "features")}, TensorUse::kEmbedding}};
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

void require(bool right, const LayerSpec& layer) {
  MLBENCH_CHECK(right, "layer " + layer.name + " of kind " + layer.kind + " cannot take what it is given");
}

Shape same_output(const LayerSpec&, const Inputs& inputs) { return inputs[0]; }

Shape with_last(const LayerSpec& layer, Shape shape, const char* in, int64_t out) {
  require(!shape.empty() && shape.back() == option(layer, in), layer);
  shape.back() = out;
  return shape;
}

Shape linear_output(const LayerSpec& layer, const Inputs& inputs) {
  return with_last(layer, inputs[0], "in", option(layer, "out"));
}

Shape lstm_output(const LayerSpec& layer, const Inputs& inputs) {
  return with_last(layer, inputs[0], "in", option(layer, "hidden"));
}

Shape features_output(const LayerSpec& layer, const Inputs& inputs) {
  return with_last(layer, inputs[0], "features", option(layer, "features"));
}

// The images that a window yields which slides over images.
Shape window_output(const LayerSpec& layer, int64_t channels, const Shape& in) {
  const int64_t kernel = option(layer, "kernel"), stride = option(layer, "stride"), padding = option(layer, "padding");
  const auto extent = [&](int64_t size) {
    require(size + 2 * padding >= kernel, layer);
    return (size + 2 * padding - kernel) / stride + 1;
  };
  return {channels, extent(in[1]), extent(in[2])};
}

Shape conv2d_output(const LayerSpec& layer, const Inputs& inputs) {
  const Shape& in = inputs[0];
  require(in.size() == 3 && in[0] == option(layer, "in"), layer);
  return window_output(layer, option(layer, "out"), in);
}

Shape pool_output(const LayerSpec& layer, const Inputs& inputs) {
  const Shape& in = inputs[0];
  require(in.size() == 3 && 2 * option(layer, "padding") <= option(layer, "kernel"), layer);
  return window_output(layer, in[0], in);
}

Shape adaptive_pool_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[0].size() == 3, layer);
  return {inputs[0][0], option(layer, "size"), option(layer, "size")};
}

Shape global_pool_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[0].size() == 3, layer);
  return {inputs[0][0]};
}

Shape global_pools_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[0].size() == 3, layer);
  return {2 * inputs[0][0]};
}

Shape flat_output(const LayerSpec&, const Inputs& inputs) { return {volume_of(inputs[0])}; }

Shape residual_output(const LayerSpec& layer, const Inputs& inputs) {
  const auto walk = [&](const std::vector<LayerSpec>& chain) {
    Shape shape = inputs[0];
    for (const LayerSpec& one : chain) shape = find_layer_kind(one.kind).output(one, {shape});
    return shape;
  };
  const Shape shape = walk(layer.body);
  require(shape == walk(layer.shortcut), layer);
  return shape;
}

Shape embedding_output(const LayerSpec& layer, const Inputs& inputs) {
  Shape shape = inputs[0];
  shape.push_back(option(layer, "features"));
  return shape;
}

Shape transpose_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[0].size() >= 2, layer);
  Shape shape = inputs[0];
  std::swap(shape[0], shape[1]);
  return shape;
}

Shape add_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[0] == inputs[1], layer);
  return inputs[0];
}

Shape concat_output(const LayerSpec& layer, const Inputs& inputs) {
  Shape shape = inputs[0];
  require(shape.size() == inputs[1].size(), layer);
  shape.back() += inputs[1].back();
  return shape;
}

Shape additive_attention_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[1].back() == option(layer, "memory"), layer);
  return with_last(layer, inputs[0], "features", option(layer, "memory"));
}

Shape penalty_output(const LayerSpec& layer, const Inputs& inputs) {
  require(inputs[0] == inputs[1], layer);
  return {};
}

void add_kinds(const std::vector<LayerSpec>& layers, std::vector<std::string>& kinds) {
  for (const LayerSpec& layer : layers) {
    if (std::ranges::find(kinds, layer.kind) == kinds.end()) kinds.push_back(layer.kind);
    add_kinds(layer.body, kinds);
    add_kinds(layer.shortcut, kinds);
  }
}

}  // namespace

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kKinds = {
      {"conv2d",
       {"in", "out", "kernel", "stride", "padding", "bias"},
       1,
       1,
       conv2d_parameters,
       conv2d_output,
       true,
       false},
      {"linear", {"in", "out", "bias"}, 1, 1, linear_parameters, linear_output, true, true},
      {"relu", {}, 1, 1, no_parameters, same_output, true, true},
      {"softplus", {}, 1, 1, no_parameters, same_output, true, false},
      {"flatten", {}, 1, 1, no_parameters, flat_output, true, false},
      {"max_pool2d", {"kernel", "stride", "padding"}, 1, 1, no_parameters, pool_output, true, false},
      {"avg_pool2d", {"kernel", "stride", "padding"}, 1, 1, no_parameters, pool_output, true, false},
      {"adaptive_avg_pool2d", {"size"}, 1, 1, no_parameters, adaptive_pool_output, true, false},
      {"global_avg_pool2d", {}, 1, 1, no_parameters, global_pool_output, true, false},
      {"global_avg_max_pool2d", {}, 1, 1, no_parameters, global_pools_output, true, false},
      {"batch_norm2d", {"channels", "eps", "momentum"}, 1, 1, batch_norm_parameters, same_output, true, false},
      {"residual", {}, 1, 1, no_parameters, residual_output, true, false},
      {"dropout", {"p"}, 1, 1, no_parameters, same_output, true, true},
      {"embedding",
       {"vocabulary", "features", "scale", "row_dropout"},
       1,
       1,
       embedding_parameters,
       embedding_output,
       false,
       true},
      {"transpose", {}, 1, 1, no_parameters, transpose_output, false, true},
      {"positions", {}, 1, 1, no_parameters, same_output, false, true},
      {"layer_norm", {"features", "eps"}, 1, 1, layer_norm_parameters, features_output, false, true},
      {"add", {}, 2, 2, no_parameters, add_output, false, true},
      {"concat", {}, 2, 2, no_parameters, concat_output, false, true},
      {"locked_dropout", {"p"}, 1, 1, no_parameters, same_output, false, true},
      {"lstm_sequence",
       {"in", "hidden", "weight_dropout", "reverse", "carried"},
       1,
       2,
       lstm_parameters,
       lstm_output,
       false,
       true},
      {"multi_head_attention",
       {"features", "heads", "causal", "cross", "dropout"},
       1,
       3,
       attention_parameters,
       features_output,
       false,
       true},
      {"additive_attention",
       {"features", "memory", "units"},
       3,
       3,
       additive_attention_parameters,
       additive_attention_output,
       false,
       true},
      {"activation_penalty", {"alpha", "beta"}, 2, 2, no_parameters, penalty_output, false, true},
  };
  return kKinds;
}

std::vector<std::string> kinds_in(const ModelDescription& model) {
  std::vector<std::string> kinds;
  add_kinds(model.layers, kinds);
  return kinds;
}

std::string_view main_work(const ModelDescription& model) {
  return std::ranges::count(kinds_in(model), "conv2d") > 0 ? kConvolutions : kProducts;
}

const LayerKind& find_layer_kind(const std::string& name) {
  const auto found = std::ranges::find_if(layer_kinds(), [&](const LayerKind& kind) { return kind.name == name; });
  MLBENCH_CHECK(found != layer_kinds().end(), "no layer kind " + name);
  return *found;
}

}  // namespace mlbench::models
