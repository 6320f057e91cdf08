#include "mlbench/framework/tensorflow/graph_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <numbers>

#include "mlbench/base/errors.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

using Shapes = std::vector<std::vector<int64_t>>;

template <typename T>
T option_in(const models::LayerSpec& layer, const char* name) {
  return layer.options.at(name).get<T>();
}

Output rows_at(Graph& graph, Output x, Output index) {
  return graph.operation("GatherV2").input(x).input(index).input(graph.integer(0)).output();
}

// The layer multiplies the features of each position.
BuiltLayer build_linear_of_positions(const LayerInput& in, const LayerContext& context) {
  std::vector<std::string> parameters = {models::parameter_name(in.layer, "weight")};
  Output y = context.graph.einsum("btd,od->bto", in.x, context.value(parameters[0]));
  if (in.layer.options.value("bias", true)) {
    parameters.push_back(models::parameter_name(in.layer, "bias"));
    y = context.graph.binary("BiasAdd", y, context.value(parameters[1]));
  }
  return with_own_gradients(in, context, y, parameters);
}

BuiltLayer build_as_in_chains(const LayerInput& in, const LayerContext& context) {
  return build_layer(in, context, in.layer.name);
}

BuiltLayer build_add(const LayerInput& in, const LayerContext& context) {
  return with_own_gradients(in, context, context.graph.binary("AddV2", in.x, in.others[0]));
}

BuiltLayer build_concat(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  return with_own_gradients(in, context,
                            graph.operation("ConcatV2").inputs({in.x, in.others[0]}).input(graph.integer(-1)).output());
}

// Ids pass as float32, which has every integer below 2^24: oneDNN, which transposes, complains of integers.
BuiltLayer build_transpose(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  if (library().TF_OperationOutputType(in.x) == TF_INT64) {
    const Output turned = graph.binary("Transpose", graph.cast(in.x, TF_FLOAT), graph.integers({1, 0}));
    return with_own_gradients(in, context, graph.cast(turned, TF_INT64));
  }
  return with_own_gradients(in, context, graph.binary("Transpose", in.x, graph.integers({1, 0, 2})));
}

BuiltLayer build_embedding(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const auto vocabulary = option_in<int64_t>(in.layer, "vocabulary"),
             features = option_in<int64_t>(in.layer, "features");
  const auto scale = option_in<float>(in.layer, "scale");
  const auto p = option_in<double>(in.layer, "row_dropout");
  const std::string weight = models::parameter_name(in.layer, "weight");
  Output factor = graph.constant(scale);
  if (context.drops(p)) {
    const Output mask = context.mask(in, p, [vocabulary](const Shapes&) { return std::vector{vocabulary}; });
    factor = graph.binary("Mul", graph.binary("ExpandDims", rows_at(graph, mask, in.x), graph.integer(-1)), factor);
  }
  const auto backward = [&graph, factor, weight, features, vocabulary, ids = in.x](Output dy, bool) {
    const Output rows =
        graph.binary("Reshape", graph.binary("Mul", dy, factor), graph.integers({-1, static_cast<int32_t>(features)}));
    const Output sums = graph.operation("UnsortedSegmentSum")
                            .input(rows)
                            .input(graph.binary("Reshape", ids, graph.integers({-1})))
                            .input(graph.integer(static_cast<int32_t>(vocabulary)))
                            .output();
    return LayerGradients{.parameters = {{weight, sums}}};
  };
  return {graph.binary("Mul", rows_at(graph, context.value(weight), in.x), factor), backward};
}

// The table of layer_kinds.h is computed in double precision; cos(a) is sin(a + pi / 2).
BuiltLayer build_positions(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const Output features = numbers_below(graph, in.x, 2);
  const Output odd = graph.binary("FloorMod", features, graph.long_integer(2));
  const auto times = [&](Output x, double factor) {
    return graph.binary("Mul", graph.cast(x, TF_DOUBLE), graph.constant(factor));
  };
  const Output extent = graph.cast(extent_of(graph, in.x, 2), TF_DOUBLE);
  const Output exponents =
      graph.binary("RealDiv", times(graph.binary("Sub", features, odd), -std::log(10000.0)), extent);
  Output numbers = numbers_below(graph, in.x, 1);
  if (context.decode != nullptr) numbers = graph.binary("AddV2", numbers, context.decode->position);
  const Output position = graph.binary("ExpandDims", times(numbers, 1), graph.integer(1));
  const Output angles = graph.binary("Mul", position, graph.unary("Exp", exponents));
  const Output table = graph.unary("Sin", graph.binary("AddV2", angles, times(odd, std::numbers::pi / 2)));
  const Output y = graph.binary("AddV2", in.x, graph.cast(table, TF_FLOAT));
  const auto backward = [](Output dy, bool input_wanted) {
    return input_wanted ? LayerGradients{.inputs = {dy}} : LayerGradients();
  };
  return {y, backward};
}

BuiltLayer build_layer_norm(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const std::string weight = models::parameter_name(in.layer, "weight"),
                    bias = models::parameter_name(in.layer, "bias");
  const auto mean_of = [&](Output x) {
    return graph.operation("Mean").input(x).input(graph.integers({2})).set("keep_dims", true).output();
  };
  const Output centred = graph.binary("Sub", in.x, mean_of(in.x));
  const Output variance =
      graph.binary("AddV2", mean_of(graph.unary("Square", centred)), graph.constant(option_in<float>(in.layer, "eps")));
  const Output normal = graph.binary("Mul", centred, graph.unary("Rsqrt", variance));
  const Output y = graph.binary("AddV2", graph.binary("Mul", normal, context.value(weight)), context.value(bias));
  return with_own_gradients(in, context, y, {bias, weight});
}

BuiltLayer build_locked_dropout(const LayerInput& in, const LayerContext& context) {
  const auto p = option_in<double>(in.layer, "p");
  if (!context.drops(p)) return with_own_gradients(in, context, context.graph.unary("Identity", in.x));
  const auto of_sequences = [](const Shapes& inputs) { return std::vector{inputs[0][1], inputs[0][2]}; };
  return scaled_by(in, context, context.mask(in, p, of_sequences));
}

// Rows [first, first + count) of a matrix, transposed.
Output columns_of(Graph& graph, Output matrix, int64_t first, int64_t count) {
  const Output rows = graph.operation("Slice")
                          .input(matrix)
                          .input(graph.integers({static_cast<int32_t>(first), 0}))
                          .input(graph.integers({static_cast<int32_t>(count), -1}))
                          .output();
  return graph.binary("Transpose", rows, graph.integers({1, 0}));
}

// The states in which an LSTM begins: those of the pass before, or zeros.
LstmState lstm_start(const LayerInput& in, const LayerContext& context, bool goes_on) {
  if (goes_on) return context.carried(in);
  Graph& graph = context.graph;
  const Output shape =
      graph.operation("Pack")
          .inputs({extent_of(graph, in.x, 1), graph.long_integer(option_in<int64_t>(in.layer, "hidden"))})
          .output();
  const Output zeros = graph.binary("Fill", shape, graph.constant(0.0F));
  return {zeros, zeros};
}

// TensorFlow's operation for whole sequences takes both weights as one matrix {in + hidden, 4 hidden}, with gates in
// the order i f g o. Its rules have no gradient of that operation, but another operation computes it.
BuiltLayer build_lstm_sequence(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  constexpr int kOutputs = 7, kCells = 1, kStates = 6;
  const bool goes_on = option_in<bool>(in.layer, "carried") || context.decode != nullptr;
  const auto turned = [reverse = option_in<bool>(in.layer, "reverse"), others = in.others, &graph](Output x) {
    if (!reverse) return x;
    OperationWriter writer = graph.operation("ReverseSequence").input(x).input(others[0]);
    return writer.set("seq_dim", int64_t{0}).set("batch_dim", int64_t{1}).output();
  };
  const auto features = option_in<int64_t>(in.layer, "in"), hidden = option_in<int64_t>(in.layer, "hidden");
  const auto p = option_in<double>(in.layer, "weight_dropout");
  std::map<std::string, std::string> names;
  for (const char* role : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    names[role] = models::parameter_name(in.layer, role);
  }
  Output mask = {nullptr, 0}, of_states = context.value(names["weight_hh"]);
  if (context.drops(p)) {
    mask = context.mask(in, p, [hidden](const Shapes&) { return std::vector{4 * hidden, hidden}; });
    of_states = graph.binary("Mul", of_states, mask);
  }
  const Output weights = graph.operation("ConcatV2")
                             .inputs({context.value(names["weight_ih"]), of_states})
                             .input(graph.integer(1))
                             .output();
  const Output positions = extent_of(graph, in.x, 0);
  const Output no_peephole = graph.vector(std::vector<float>(static_cast<size_t>(hidden)));
  const LstmState start = lstm_start(in, context, goes_on);
  const std::vector<Output> inputs = {
      positions,
      turned(in.x),
      start.cells,
      start.hidden,
      graph.binary("Transpose", weights, graph.integers({1, 0})),
      no_peephole,
      no_peephole,
      no_peephole,
      graph.binary("AddV2", context.value(names["bias_ih"]), context.value(names["bias_hh"]))};
  const auto with_inputs = [&graph, inputs](const char* kind) {
    OperationWriter writer = graph.operation(kind);
    for (const Output& one : inputs) writer.input(one);
    return writer;
  };
  TF_Operation* const sequence = with_inputs("BlockLSTMV2").finish();
  if (goes_on) {
    const Output last = graph.binary("Sub", positions, graph.long_integer(1));
    context.carry({rows_at(graph, {sequence, kStates}, last), rows_at(graph, {sequence, kCells}, last)});
  }
  const auto backward = [=, &graph](Output dy, bool input_wanted) {
    OperationWriter writer = with_inputs("BlockLSTMGradV2");
    for (int i = 0; i < kOutputs; ++i) writer.input({sequence, i});
    TF_Operation* const found =
        writer.input(graph.unary("ZerosLike", dy)).input(turned(dy)).set("use_peephole", false).finish();
    const Output of_weights = {found, 3}, of_bias = {found, 7};
    Output of_weight_hh = columns_of(graph, of_weights, features, hidden);
    if (mask.oper != nullptr) of_weight_hh = graph.binary("Mul", of_weight_hh, mask);
    LayerGradients gradients;
    gradients.parameters = {{names.at("bias_hh"), of_bias},
                            {names.at("bias_ih"), of_bias},
                            {names.at("weight_hh"), of_weight_hh},
                            {names.at("weight_ih"), columns_of(graph, of_weights, 0, features)}};
    if (input_wanted) gradients.inputs = {turned({found, 0})};
    return gradients;
  };
  return {turned({sequence, kStates}), backward};
}

// `x` without its first or its last position.
Output positions_from(Graph& graph, Output x, int32_t begin, int32_t end) {
  return graph.operation("StridedSlice")
      .input(x)
      .input(graph.integers({begin}))
      .input(graph.integers({end}))
      .input(graph.integers({1}))
      .set("end_mask", int64_t{end == 0 ? 1 : 0})
      .output();
}

BuiltLayer build_activation_penalty(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const Output all = graph.integers({0, 1, 2}), states = in.others[0];
  const auto weighted = [&](const char* option, Output x) {
    return graph.binary("Mul", x, graph.constant(option_in<float>(in.layer, option)));
  };
  const Output changes = graph.binary("Sub", positions_from(graph, states, 1, 0), positions_from(graph, states, 0, -1));
  const Output count = graph.cast(graph.unary("Size", changes), TF_FLOAT);
  const Output sum = graph.binary("Sum", graph.unary("Square", changes), all);
  const Output penalty =
      graph.binary("AddV2", weighted("alpha", graph.binary("Mean", graph.unary("Square", in.x), all)),
                   weighted("beta", graph.binary("DivNoNan", sum, count)));
  return with_own_gradients(in, context, penalty);
}

struct GraphRow {
  const char* kind;
  BuiltLayer (*build)(const LayerInput& in, const LayerContext& context);
};
constexpr GraphRow kGraphRows[] = {
    {"linear", build_linear_of_positions},
    {"relu", build_as_in_chains},
    {"dropout", build_as_in_chains},
    {"embedding", build_embedding},
    {"transpose", build_transpose},
    {"positions", build_positions},
    {"layer_norm", build_layer_norm},
    {"add", build_add},
    {"concat", build_concat},
    {"locked_dropout", build_locked_dropout},
    {"lstm_sequence", build_lstm_sequence},
    {"multi_head_attention", build_multi_head_attention},
    {"additive_attention", build_additive_attention},
    {"activation_penalty", build_activation_penalty},
};

}  // namespace

Output extent_of(Graph& graph, Output x, int32_t axis) {
  return rows_at(graph, graph.operation("Shape").input(x).set("out_type", TF_INT64).output(), graph.integer(axis));
}

Output numbers_below(Graph& graph, Output x, int32_t axis) {
  return graph.operation("Range")
      .input(graph.long_integer(0))
      .input(extent_of(graph, x, axis))
      .input(graph.long_integer(1))
      .output();
}

BuiltLayer build_graph_layer(const LayerInput& input, const LayerContext& context, const std::string& model) {
  for (const GraphRow& row : kGraphRows) {
    if (row.kind == input.layer.kind) return row.build(input, context);
  }
  throw UserError(fmt::format("framework 'tensorflow' has no layer '{}' in graphs (model '{}'); it has: {}",
                              input.layer.kind, model, fmt::join(graph_layers(), ", ")));
}

std::vector<std::string_view> graph_layers() {
  std::vector<std::string_view> kinds;
  for (const GraphRow& row : kGraphRows) kinds.emplace_back(row.kind);
  return kinds;
}

}  // namespace mlbench::framework::tensorflow_framework
