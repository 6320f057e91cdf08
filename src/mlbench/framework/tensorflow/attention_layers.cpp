// The layer multi_head_attention.

#include <cmath>

#include "mlbench/framework/tensorflow/graph_layers.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

// {sentences, 1, 1, keys} or {queries, keys}: 0 where a query sees a key, else so low a number that softmax gives 0.
Output unseen_keys(const LayerInput& in, Graph& graph, Output memory) {
  const Output keys = numbers_below(graph, memory, 1);
  const bool causal = in.layer.options.at("causal").get<bool>();
  const Output end = causal ? numbers_below(graph, in.x, 1) : in.others[0];
  const Output column = graph.binary("ExpandDims", end, graph.integer(1));
  Output hidden = graph.cast(graph.binary(causal ? "Greater" : "GreaterEqual", keys, column), TF_FLOAT);
  if (!causal) {
    for (int i = 0; i < 2; ++i) hidden = graph.binary("ExpandDims", hidden, graph.integer(1));
  }
  return graph.binary("Mul", hidden, graph.constant(-1e9F));
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
    const Output unseen = unseen_keys(in, graph, memory);
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

}  // namespace mlbench::framework::tensorflow_framework
