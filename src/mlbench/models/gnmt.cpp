#include "mlbench/models/gnmt.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/models/text_model.h"

namespace mlbench::models {

namespace {

constexpr Range kBoundRange{0, 1e3};

struct GnmtSize {
  int64_t hidden = 1024;
  int layers = 4;
};

struct GnmtOptions {
  GnmtSize size;
  double dropout = 0;
  Initialiser start;  // of all parameters that are drawn
};

GnmtSize gnmt_size(const std::string& size) {
  if (size == "small") return {256, 2};
  if (size == "tiny") return {16, 3};
  return {};
}

// An LSTM over {positions, sentences, features}; with `lengths`, from each sentence's end to its beginning.
std::string gnmt_lstm(Graph& graph, const std::string& name, const std::string& x, const GnmtOptions& options,
                      const std::string& lengths = "") {
  std::vector<std::string> inputs = {x};
  if (!lengths.empty()) inputs.push_back(lengths);
  const Initialiser& start = options.start;
  return graph.add(
      "lstm_sequence", name, inputs,
      {.options = {{"in", graph.features(x)},
                   {"hidden", options.size.hidden},
                   {"weight_dropout", 0},
                   {"reverse", !lengths.empty()},
                   {"carried", false}},
       .initialisers = {{"weight_ih", start}, {"weight_hh", start}, {"bias_ih", start}, {"bias_hh", zeros()}}});
}

Graph::Layer gnmt_embedding(const spec::TaskSpec& task, int64_t hidden) {
  return {.options = {{"vocabulary", task.data.classes}, {"features", hidden}, {"scale", 1}, {"row_dropout", 0}}};
}

std::string gnmt_encoder(Graph& graph, const spec::TaskSpec& task, const GnmtOptions& options,
                         const std::string& lengths) {
  const std::string source = graph.add("transpose", "source_by_position", {graph.input("source", {kAny, kAny})});
  Graph::Layer embedding = gnmt_embedding(task, options.size.hidden);
  embedding.initialisers = {{"weight", options.start}};
  std::string x = graph.add("embedding", "embedding", {source}, embedding);
  x = graph.dropout("encoder.dropout1", x, options.dropout);
  x = graph.concat("encoder.both", gnmt_lstm(graph, "encoder.lstm1", x, options),
                   gnmt_lstm(graph, "encoder.lstm1_reverse", x, options, lengths));
  for (int layer = 2; layer <= options.size.layers; ++layer) {
    const std::string before = x;
    x = graph.dropout(fmt::format("encoder.dropout{}", layer), x, options.dropout);
    x = gnmt_lstm(graph, fmt::format("encoder.lstm{}", layer), x, options);
    if (layer > 2) x = graph.sum(fmt::format("encoder.sum{}", layer), before, x);
  }
  return x;
}

}  // namespace

ModelDescription describe_gnmt(const spec::TaskSpec& task) {
  OptionReader reader(fmt::format("model '{}'", task.model.name), task.model.options);
  const GnmtSize size = gnmt_size(read_size(reader));
  const GnmtOptions options{size, reader.number("dropout", 0.2, kDropoutRange),
                            uniform(reader.number("initial_bound", 0.1, kBoundRange))};
  reader.finish();
  require_text(task);

  Graph graph;
  const std::string lengths = graph.input("source_lengths", {kAny});
  const std::string memory = gnmt_encoder(graph, task, options, lengths);
  const std::string target = graph.add("transpose", "target_by_position", {graph.input("target_in", {kAny, kAny})});
  Graph::Layer embedding = gnmt_embedding(task, size.hidden);
  embedding.shared = {{"weight", "embedding.weight"}};
  std::string x = graph.add("embedding", "target_embedding", {target}, embedding);
  x = graph.dropout("decoder.dropout1", x, options.dropout);
  x = gnmt_lstm(graph, "decoder.lstm1", x, options);
  const double units = static_cast<double>(size.hidden);
  const std::string context =
      graph.add("additive_attention", "attention", {x, memory, lengths},
                {.options = {{"features", size.hidden}, {"memory", size.hidden}, {"units", size.hidden}},
                 .initialisers = {{"query_weight", options.start},
                                  {"key_weight", options.start},
                                  {"score_weight", options.start},
                                  {"score_scale", constant(1 / std::sqrt(units))},
                                  {"score_bias", zeros()}}});
  for (int layer = 2; layer <= size.layers; ++layer) {
    const std::string before = x;
    x = graph.concat(fmt::format("decoder.with_context{}", layer), x, context);
    x = graph.dropout(fmt::format("decoder.dropout{}", layer), x, options.dropout);
    x = gnmt_lstm(graph, fmt::format("decoder.lstm{}", layer), x, options);
    if (layer > 2) x = graph.sum(fmt::format("decoder.sum{}", layer), before, x);
  }
  x = graph.add("transpose", "decoder.by_sentence", {x});  // the order of the targets
  graph.add("linear", "softmax", {x},
            {.options = {{"in", size.hidden}, {"out", task.data.classes}, {"bias", true}},
             .initialisers = {{"weight", options.start}, {"bias", options.start}}});
  ModelDescription model = graph.finish();
  model.loss.targets = "target_out";
  model.loss.ignored = 0;
  model.decoder_input = "target_in";
  return model;
}

}  // namespace mlbench::models
