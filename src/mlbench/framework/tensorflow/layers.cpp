#include "mlbench/framework/tensorflow/layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

using Ints = std::vector<int64_t>;

int64_t option_of(const models::LayerSpec& layer, const char* name) { return layer.options.at(name).get<int64_t>(); }
bool is_biased(const models::LayerSpec& layer) { return layer.options.value("bias", true); }

// `x` with `padding` rows and columns of `value` on every side of its images.
Output padded(Graph& graph, Output x, int64_t padding, float value) {
  const auto p = static_cast<int32_t>(padding);
  const Output widths = graph.integer_matrix({0, 0, p, p, p, p, 0, 0}, 4);
  if (value == 0) return graph.binary("Pad", x, widths);
  return graph.operation("PadV2").input(x).input(widths).input(graph.constant(value)).output();
}

BuiltLayer build_conv2d(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const int64_t kernel = option_of(in.layer, "kernel"), stride = option_of(in.layer, "stride"),
                padding = option_of(in.layer, "padding");
  const std::string weight = in.layer.name + ".weight", bias = in.layer.name + ".bias";
  std::vector<std::string> parameters = {weight};
  const bool same = stride == 1 && 2 * padding == kernel - 1;
  // TensorFlow's filters are {height, width, in, out}. Of explicit padding its gradient knows nothing.
  const Output filter = graph.binary("Transpose", context.value(weight), graph.integers({2, 3, 1, 0}));
  Output y = graph.operation("Conv2D")
                 .input(same || padding == 0 ? in.x : padded(graph, in.x, padding, 0))
                 .input(filter)
                 .set("strides", Ints{1, stride, stride, 1})
                 .set("padding", same ? "SAME" : "VALID")
                 .output();
  if (is_biased(in.layer)) {
    y = graph.binary("BiasAdd", y, context.value(bias));
    parameters.push_back(bias);
  }
  return with_own_gradients(in, context, y, parameters);
}

BuiltLayer build_linear(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const std::string weight = in.layer.name + ".weight", bias = in.layer.name + ".bias";
  std::vector<std::string> parameters = {weight};
  Output y = graph.operation("MatMul").input(in.x).input(context.value(weight)).set("transpose_b", true).output();
  if (is_biased(in.layer)) {
    y = graph.binary("BiasAdd", y, context.value(bias));
    parameters.push_back(bias);
  }
  return with_own_gradients(in, context, y, parameters);
}

BuiltLayer build_relu(const LayerInput& in, const LayerContext& context) {
  return with_own_gradients(in, context, context.graph.unary("Relu", in.x));
}

BuiltLayer build_softplus(const LayerInput& in, const LayerContext& context) {
  return with_own_gradients(in, context, context.graph.unary("Softplus", in.x));
}

// The neutral order of an image's elements is {channels, height, width}.
BuiltLayer build_flatten(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const Output planes = in.shape.size() == 3 ? graph.binary("Transpose", in.x, graph.integers({0, 3, 1, 2})) : in.x;
  const Output y = graph.binary("Reshape", planes, graph.integers({-1, static_cast<int32_t>(volume_of(in.shape))}));
  return with_own_gradients(in, context, y);
}

BuiltLayer build_batch_norm2d(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const std::string& name = in.layer.name;
  const bool of_batch = context.training && !context.frozen_batch_norm;
  const auto running = [&](const char* role) { return of_batch ? graph.vector({}) : context.value(name + "." + role); };
  TF_Operation* const norm = graph.operation("FusedBatchNormV3")
                                 .input(in.x)
                                 .input(context.value(name + ".weight"))
                                 .input(context.value(name + ".bias"))
                                 .input(running("running_mean"))
                                 .input(running("running_var"))
                                 .set("epsilon", in.layer.options.at("eps").get<float>())
                                 .set("is_training", of_batch)
                                 .finish();
  if (of_batch) context.statistics(in.layer, {norm, 1}, {norm, 2});
  return with_own_gradients(in, context, {norm, 0}, {name + ".weight", name + ".bias"});
}

BuiltLayer build_dropout(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const auto p = in.layer.options.at("p").get<double>();
  if (!context.drops(p)) return with_own_gradients(in, context, graph.unary("Identity", in.x));
  Output mask = context.mask(in, p, mask_of_input);
  if (in.shape.size() == 3) mask = graph.binary("Transpose", mask, graph.integers({0, 2, 3, 1}));
  return scaled_by(in, context, mask);
}

BuiltLayer build_pool(const LayerInput& in, const LayerContext& context, const char* operation, float outside) {
  Graph& graph = context.graph;
  const int64_t kernel = option_of(in.layer, "kernel"), stride = option_of(in.layer, "stride"),
                padding = option_of(in.layer, "padding");
  const Output y = graph.operation(operation)
                       .input(padding == 0 ? in.x : padded(graph, in.x, padding, outside))
                       .set("ksize", Ints{1, kernel, kernel, 1})
                       .set("strides", Ints{1, stride, stride, 1})
                       .set("padding", "VALID")
                       .output();
  return with_own_gradients(in, context, y);
}

BuiltLayer build_max_pool2d(const LayerInput& in, const LayerContext& context) {
  return build_pool(in, context, "MaxPool", std::numeric_limits<float>::lowest());
}

BuiltLayer build_avg_pool2d(const LayerInput& in, const LayerContext& context) {
  return build_pool(in, context, "AvgPool", 0);
}

// The matrix {size, extent} whose rows are the means over the windows of one direction.
Output windows(Graph& graph, int64_t size, int64_t extent) {
  std::vector<float> means(static_cast<size_t>(size * extent));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t begin = i * extent / size, end = ((i + 1) * extent + size - 1) / size;
    for (int64_t j = begin; j < end; ++j) {
      means[static_cast<size_t>(i * extent + j)] = 1.0F / static_cast<float>(end - begin);
    }
  }
  return graph.matrix(means, size);
}

BuiltLayer build_adaptive_avg_pool2d(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const int64_t size = option_of(in.layer, "size");
  if (in.shape[1] == size && in.shape[2] == size) return with_own_gradients(in, context, graph.unary("Identity", in.x));
  const Output rows = graph.einsum("ih,bhwc->biwc", windows(graph, size, in.shape[1]), in.x);
  return with_own_gradients(in, context, graph.einsum("jw,biwc->bijc", windows(graph, size, in.shape[2]), rows));
}

BuiltLayer build_global_avg_pool2d(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  return with_own_gradients(in, context, graph.binary("Mean", in.x, graph.integers({1, 2})));
}

BuiltLayer build_global_avg_max_pool2d(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const Output axes = graph.integers({1, 2});
  const Output both = graph.operation("ConcatV2")
                          .inputs({graph.binary("Mean", in.x, axes), graph.binary("Max", in.x, axes)})
                          .input(graph.integer(1))
                          .output();
  return with_own_gradients(in, context, both);
}

struct Row {
  const char* kind;
  BuiltLayer (*build)(const LayerInput& in, const LayerContext& context);
};
constexpr Row kRows[] = {
    {"conv2d", build_conv2d},
    {"linear", build_linear},
    {"relu", build_relu},
    {"softplus", build_softplus},
    {"flatten", build_flatten},
    {"batch_norm2d", build_batch_norm2d},
    {"residual", nullptr},
    {"global_avg_pool2d", build_global_avg_pool2d},
    {"global_avg_max_pool2d", build_global_avg_max_pool2d},
    {"max_pool2d", build_max_pool2d},
    {"avg_pool2d", build_avg_pool2d},
    {"adaptive_avg_pool2d", build_adaptive_avg_pool2d},
    {"dropout", build_dropout},
};

}  // namespace

BuiltLayer with_own_gradients(const LayerInput& in, const LayerContext& context, Output y,
                              const std::vector<std::string>& parameters) {
  std::vector<Output> inputs = {in.x};
  inputs.insert(inputs.end(), in.others.begin(), in.others.end());
  const auto backward = [&graph = context.graph, inputs, y, parameters, value = context.value](Output dy,
                                                                                               bool inputs_wanted) {
    const auto is_float = [](Output one) { return library().TF_OperationOutputType(one) == TF_FLOAT; };
    std::vector<Output> xs;
    for (const std::string& name : parameters) xs.push_back(value(name));
    if (inputs_wanted) std::ranges::copy_if(inputs, std::back_inserter(xs), is_float);
    const std::vector<Output> found = graph.gradients(y, dy, xs);
    LayerGradients gradients;
    auto next = found.begin();
    for (const std::string& name : parameters) gradients.parameters.push_back({name, *next++});
    for (size_t i = 0; inputs_wanted && i < inputs.size(); ++i) {
      gradients.inputs.push_back(is_float(inputs[i]) ? *next++ : Output{nullptr, 0});
    }
    return gradients;
  };
  return {y, backward};
}

BuiltLayer scaled_by(const LayerInput& in, const LayerContext& context, Output factor) {
  const auto backward = [&graph = context.graph, factor](Output dy, bool inputs_wanted) {
    LayerGradients gradients;
    if (inputs_wanted) gradients.inputs = {graph.binary("Mul", dy, factor)};
    return gradients;
  };
  return {context.graph.binary("Mul", in.x, factor), backward};
}

std::vector<int64_t> mask_of_input(const std::vector<std::vector<int64_t>>& inputs) { return inputs.front(); }

BuiltLayer build_layer(const LayerInput& input, const LayerContext& context, const std::string& model) {
  for (const Row& row : kRows) {
    if (row.build != nullptr && row.kind == input.layer.kind) return row.build(input, context);
  }
  throw UserError(fmt::format("framework 'tensorflow' has no layer '{}' (model '{}'); it has: {}", input.layer.kind,
                              model, fmt::join(chain_layers(), ", ")));
}

const std::vector<std::string_view>& chain_layers() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const Row& row : kRows) names.emplace_back(row.kind);
    return names;
  }();
  return kNames;
}

}  // namespace mlbench::framework::tensorflow_framework
