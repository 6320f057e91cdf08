// The layers multi_head_attention and additive_attention.

#include <cmath>
#include <string>
#include <vector>

#include "mlbench/framework/tensorflow/graph_layers.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

// {ends, keys}: 0 where an end's queries see a key, else so low a number that softmax gives 0. `unseen` compares the
// numbers of the keys with the ends.
Output unseen_keys(Graph& graph, Output keys, const char* unseen, Output ends) {
  const Output column = graph.binary("ExpandDims", ends, graph.integer(1));
  return graph.binary("Mul", graph.cast(graph.binary(unseen, keys, column), TF_FLOAT), graph.constant(-1e9F));
}

// {sentences, 1, 1, keys} or {queries, keys}.
Output unseen_by_heads(const LayerInput& in, Graph& graph, Output memory) {
  const Output keys = numbers_below(graph, memory, 1);
  if (in.layer.options.at("causal").get<bool>()) {
    return unseen_keys(graph, keys, "Greater", numbers_below(graph, in.x, 1));
  }
  Output unseen = unseen_keys(graph, keys, "GreaterEqual", in.others[0]);
  for (int i = 0; i < 2; ++i) unseen = graph.binary("ExpandDims", unseen, graph.integer(1));
  return unseen;
}

// What scores of additive attention are computed from, or the gradients of that.
struct AdditiveValues {
  Output queries, keys;  // {sentences, positions, units}
  Output weight;         // {units}
};

// {sentences, queries, keys}.
Output scores_of(Graph& graph, const AdditiveValues& from) {
  const Output sums = graph.binary("AddV2", graph.binary("ExpandDims", from.queries, graph.integer(2)),
                                   graph.binary("ExpandDims", from.keys, graph.integer(1)));
  return graph.einsum("btsu,u->bts", graph.unary("Tanh", sums), from.weight);
}

// The scores need a tanh for each query, key and unit. They are computed in this number of parts, one after the other,
// so that only those of one part exist at a time. The backward pass computes them again.
constexpr int64_t kParts = 16;

// Parts of x, {sentences, queries, ...}, of about as many queries each.
std::vector<Output> parts_of(Graph& graph, Output x) {
  const Output queries = extent_of(graph, x, 1);
  const auto ends_from = [&](int64_t first) {
    OperationWriter range = graph.operation("Range").input(graph.long_integer(first));
    range.input(graph.long_integer(first + kParts)).input(graph.long_integer(1));
    return graph.binary("FloorDiv", graph.binary("Mul", range.output(), queries), graph.long_integer(kParts));
  };
  OperationWriter split = graph.operation("SplitV").input(x).input(graph.binary("Sub", ends_from(1), ends_from(0)));
  TF_Operation* const parts = split.input(graph.integer(1)).set("num_split", kParts).finish();
  std::vector<Output> all;
  for (int i = 0; i < static_cast<int>(kParts); ++i) all.push_back({parts, i});
  return all;
}

Output joined(Graph& graph, const std::vector<Output>& parts) {
  return graph.operation("ConcatV2").inputs(parts).input(graph.integer(1)).output();
}

Output scores_in_turn(Graph& graph, const AdditiveValues& from) {
  std::vector<Output> scores;
  std::vector<TF_Operation*> before;
  for (const Output part : parts_of(graph, from.queries)) {
    const Output queries = graph.operation("Identity").input(part).after(before).output();
    scores.push_back(scores_of(graph, {queries, from.keys, from.weight}));
    before = {scores.back().oper};
  }
  return joined(graph, scores);
}

AdditiveValues scores_backward(Graph& graph, const AdditiveValues& from, Output d_scores) {
  const std::vector<Output> d_parts = parts_of(graph, d_scores);
  std::vector<Output> d_queries;
  AdditiveValues d = {{}, graph.unary("ZerosLike", from.keys), graph.unary("ZerosLike", from.weight)};
  std::vector<TF_Operation*> before;
  for (const Output part : parts_of(graph, from.queries)) {
    const Output queries = graph.operation("Identity").input(part).after(before).output();
    const Output scores = scores_of(graph, {queries, from.keys, from.weight});
    const std::vector<Output> found =
        graph.gradients(scores, d_parts[d_queries.size()], {queries, from.keys, from.weight});
    d_queries.push_back(found[0]);
    d.keys = graph.binary("AddV2", d.keys, found[1]);
    d.weight = graph.binary("AddV2", d.weight, found[2]);
    before = {found[0].oper, d.keys.oper, d.weight.oper};
  }
  d.queries = joined(graph, d_queries);
  return d;
}

}  // namespace

BuiltLayer build_multi_head_attention(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const auto heads = in.layer.options.at("heads").get<int32_t>(),
             features = in.layer.options.at("features").get<int32_t>();
  const int32_t width = features / heads;
  const auto p = in.layer.options.at("dropout").get<double>();
  const bool cross = in.layer.options.at("cross").get<bool>();
  const Output memory = cross ? in.others[1] : in.x;
  const std::string in_weight = models::parameter_name(in.layer, "in_weight"),
                    out_weight = models::parameter_name(in.layer, "out_weight");
  const Output weights = graph.binary("Reshape", context.value(in_weight), graph.integers({3, heads, width, features}));
  TF_Operation* const parts = graph.operation("Unpack").input(weights).set("num", int64_t{3}).finish();
  const auto projected = [&](int part, Output x) { return graph.einsum("btd,hwd->bhtw", x, {parts, part}); };
  Output keys = projected(1, memory), values = projected(2, memory);
  if (context.decode != nullptr) {
    for (Output* const one : {&keys, &values}) {
      *one = cross ? context.decode->from_sources(*one) : context.decode->grown(*one, heads, width);
    }
  }
  const Output queries =
      graph.binary("Mul", projected(0, in.x), graph.constant(1 / std::sqrt(static_cast<float>(width))));
  Output scores = graph.einsum("bhtw,bhsw->bhts", queries, keys);
  // The newest position sees all before it.
  if (context.decode == nullptr || cross) {
    const Output unseen = unseen_by_heads(in, graph, memory);
    scores = graph.binary("AddV2", scores, context.decode == nullptr ? unseen : context.decode->from_sources(unseen));
  }
  Output seen = graph.unary("Softmax", scores);
  if (context.drops(p)) {
    const auto of_weights = [cross, heads](const std::vector<std::vector<int64_t>>& inputs) {
      return std::vector<int64_t>{inputs[0][0], heads, inputs[0][1], inputs[cross ? 2 : 0][1]};
    };
    seen = graph.binary("Mul", seen, context.mask(in, p, of_weights));
  }
  const Output attended = graph.einsum("bhts,bhsw->bthw", seen, values);
  const Output last = graph.binary("Reshape", context.value(out_weight), graph.integers({features, heads, width}));
  return with_own_gradients(in, context, graph.einsum("bthw,ehw->bte", attended, last), {out_weight, in_weight});
}

// Each layer of the decoder takes the attention of its own position, and the queries are the states of a layer that
// takes none. So all positions are computed at once.
BuiltLayer build_additive_attention(const LayerInput& in, const LayerContext& context) {
  Graph& graph = context.graph;
  const auto name = [&](const char* role) { return models::parameter_name(in.layer, role); };
  const auto value = [&](const char* role) { return context.value(name(role)); };
  const auto of_sources = [&](Output x) { return context.decode == nullptr ? x : context.decode->from_sources(x); };
  const Output sources = in.others[0], by_sentence = graph.integers({1, 0, 2});
  const Output memory = of_sources(graph.binary("Transpose", sources, by_sentence));
  const Output padding = unseen_keys(graph, numbers_below(graph, sources, 0), "GreaterEqual", in.others[1]);
  const Output unseen = of_sources(graph.binary("ExpandDims", padding, graph.integer(1)));
  const Output projected = graph.einsum("tbd,ud->btu", in.x, value("query_weight"));
  const Output squares = graph.binary("Sum", graph.unary("Square", value("score_weight")), graph.integers({0}));
  const Output factor = graph.binary("Mul", value("score_scale"), graph.unary("Rsqrt", squares));
  const AdditiveValues from = {graph.binary("AddV2", projected, value("score_bias")),
                               of_sources(graph.einsum("sbm,um->bsu", sources, value("key_weight"))),
                               graph.binary("Mul", value("score_weight"), factor)};
  const Output scores = context.decode == nullptr ? scores_in_turn(graph, from) : scores_of(graph, from);
  const Output seen = graph.unary("Softmax", graph.binary("AddV2", scores, unseen));
  if (context.decode != nullptr) context.decode->attention(seen);
  const Output mean = graph.einsum("bts,bsm->tbm", seen, memory);
  const LayerInput queries_in = {in.layer, in.index, in.x}, keys_in = {in.layer, in.index, sources};
  const BuiltLayer queries = with_own_gradients(queries_in, context, from.queries,
                                                {name("query_weight"), name("score_bias")}),
                   keys = with_own_gradients(keys_in, context, from.keys, {name("key_weight")}),
                   weight = with_own_gradients(in, context, from.weight, {name("score_weight"), name("score_scale")});
  const auto backward = [=, &graph](Output dy, bool inputs_wanted) {
    const std::vector<Output> found = graph.gradients(mean, dy, {scores, memory});
    const AdditiveValues d = scores_backward(graph, from, found[0]);
    LayerGradients all = weight.backward(d.weight, false);
    for (const LayerGradients& more :
         {keys.backward(d.keys, inputs_wanted), queries.backward(d.queries, inputs_wanted)}) {
      all.parameters.insert(all.parameters.end(), more.parameters.begin(), more.parameters.end());
      all.inputs.insert(all.inputs.begin(), more.inputs.begin(), more.inputs.end());
    }
    if (inputs_wanted) {
      const Output of_memory = graph.binary("Transpose", found[1], by_sentence);
      all.inputs = {all.inputs[0], graph.binary("AddV2", all.inputs[1], of_memory), {nullptr, 0}};
    }
    return all;
  };
  return {mean, backward};
}

}  // namespace mlbench::framework::tensorflow_framework
