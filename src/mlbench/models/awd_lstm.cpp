#include "mlbench/models/awd_lstm.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/models/text_model.h"

namespace mlbench::models {

namespace {

struct AwdLstmSize {
  int64_t embedding = 400, hidden = 1150;
  int layers = 3;
};

AwdLstmSize awd_lstm_size(const std::string& size) {
  if (size == "small") return {200, 200, 2};
  if (size == "tiny") return {13, 20, 2};
  return {};
}

std::string awd_lstm_layer(Graph& graph, const std::string& name, const std::string& x, int64_t hidden,
                           double weight_dropout) {
  const Initialiser start = uniform(1 / std::sqrt(static_cast<double>(hidden)));
  return graph.add(
      "lstm_sequence", name, {x},
      {.options = {{"in", graph.features(x)},
                   {"hidden", hidden},
                   {"weight_dropout", weight_dropout},
                   {"reverse", false},
                   {"carried", true}},
       .initialisers = {{"weight_ih", start}, {"weight_hh", start}, {"bias_ih", start}, {"bias_hh", start}}});
}

}  // namespace

ModelDescription describe_awd_lstm(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const AwdLstmSize size = awd_lstm_size(read_size(options));
  const double output_dropout = options.number("output_dropout", 0.4, kDropoutRange);
  const double hidden_dropout = options.number("hidden_dropout", 0.2, kDropoutRange);
  const double input_dropout = options.number("input_dropout", 0.65, kDropoutRange);
  const double embedding_dropout = options.number("embedding_dropout", 0.1, kDropoutRange);
  const double weight_dropout = options.number("weight_dropout", 0.5, kDropoutRange);
  const double alpha = options.number("activation_regularisation", 2, {0, 1e6});
  const double beta = options.number("temporal_regularisation", 1, {0, 1e6});
  options.finish();
  require_text(task);

  Graph graph;
  const std::string tokens = graph.input("tokens", {kAny, kAny});
  std::string x = graph.add("embedding", "embedding", {tokens},
                            {.options = {{"vocabulary", task.data.classes},
                                         {"features", size.embedding},
                                         {"scale", 1},
                                         {"row_dropout", embedding_dropout}},
                             .initialisers = {{"weight", uniform(0.1)}}});
  x = graph.locked_dropout("input_dropout", x, input_dropout);
  for (int layer = 1; layer < size.layers; ++layer) {
    x = awd_lstm_layer(graph, fmt::format("lstm{}", layer), x, size.hidden, weight_dropout);
    x = graph.locked_dropout(fmt::format("hidden_dropout{}", layer), x, hidden_dropout);
  }
  const std::string raw = awd_lstm_layer(graph, fmt::format("lstm{}", size.layers), x, size.embedding, weight_dropout);
  const std::string dropped = graph.locked_dropout("output_dropout", raw, output_dropout);
  if (alpha > 0 || beta > 0) {
    graph.penalty(
        graph.add("activation_penalty", "penalty", {dropped, raw}, {.options = {{"alpha", alpha}, {"beta", beta}}}));
  }
  graph.add("linear", "softmax", {dropped},
            {.options = {{"in", size.embedding}, {"out", task.data.classes}, {"bias", true}},
             .initialisers = {{"bias", zeros()}},
             .shared = {{"weight", "embedding.weight"}}});
  ModelDescription model = graph.finish();
  model.loss.targets = "targets";
  return model;
}

}  // namespace mlbench::models
