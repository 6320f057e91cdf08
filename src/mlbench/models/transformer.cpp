#include "mlbench/models/transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/models/text_model.h"

namespace mlbench::models {

namespace {

struct TransformerSize {
  int64_t features = 1024, feed = 4096, heads = 16;
  int layers = 6;
};

TransformerSize transformer_size(const std::string& size) {
  if (size == "small") return {128, 512, 4, 3};
  if (size == "tiny") return {16, 32, 2, 2};
  return {};
}

Initialiser glorot(int64_t rows, int64_t columns) {
  return uniform(std::sqrt(6.0 / static_cast<double>(rows + columns)));
}

struct TransformerWriter {
  Graph& graph;
  TransformerSize size;
  int64_t vocabulary = 0;
  double dropout = 0, attention_dropout = 0, relu_dropout = 0;
  std::string lengths;  // the lengths of the source

  std::string embed(const std::string& name, const std::string& ids) {
    const int64_t d = size.features;
    Graph::Layer layer = {.options = {{"vocabulary", vocabulary},
                                      {"features", d},
                                      {"scale", std::sqrt(static_cast<double>(d))},
                                      {"row_dropout", 0}}};
    if (name == "embedding") {
      Initialiser start = normal(1 / std::sqrt(static_cast<double>(d)));
      start.zero_rows = 1;  // the row of the padding, token 0
      layer.initialisers = {{"weight", start}};
    } else {
      layer.shared = {{"weight", "embedding.weight"}};
    }
    const std::string x = graph.add("embedding", name, {ids}, layer);
    return graph.dropout(name + ".dropout", graph.add("positions", name + ".positions", {x}), dropout);
  }

  std::string norm(const std::string& name, const std::string& x) {
    return graph.add("layer_norm", name, {x},
                     {.options = {{"features", size.features}, {"eps", 1e-5}},
                      .initialisers = {{"weight", ones()}, {"bias", zeros()}}});
  }

  // With an empty `memory`, the attention is to x itself.
  std::string attention(const std::string& name, const std::string& x, bool causal, const std::string& memory) {
    std::vector<std::string> inputs = {x};
    if (!causal) inputs.push_back(lengths);
    if (!memory.empty()) inputs.push_back(memory);
    const int64_t d = size.features;
    return graph.add("multi_head_attention", name, inputs,
                     {.options = {{"features", d},
                                  {"heads", size.heads},
                                  {"causal", causal},
                                  {"cross", !memory.empty()},
                                  {"dropout", attention_dropout}},
                      .initialisers = {{"in_weight", glorot(d, d)}, {"out_weight", glorot(d, d)}}});
  }

  std::string linear(const std::string& name, const std::string& x, int64_t outputs) {
    const int64_t in = graph.features(x);
    return graph.add("linear", name, {x},
                     {.options = {{"in", in}, {"out", outputs}, {"bias", true}},
                      .initialisers = {{"weight", glorot(outputs, in)}, {"bias", zeros()}}});
  }

  std::string feed(const std::string& name, const std::string& x) {
    const std::string inner = graph.add("relu", name + ".relu", {linear(name + ".fc1", x, size.feed)});
    return linear(name + ".fc2", graph.dropout(name + ".relu_dropout", inner, relu_dropout), size.features);
  }

  // Adds x + dropout(y).
  std::string residual(const std::string& name, const std::string& x, const std::string& y) {
    return graph.sum(name + ".sum", x, graph.dropout(name + ".dropout", y, dropout));
  }

  std::string layer(const std::string& name, std::string x, const std::string& memory) {
    const bool causal = !memory.empty();
    const std::string self = name + ".self_attention";
    x = residual(self, x, attention(self, norm(name + ".norm1", x), causal, ""));
    if (!memory.empty()) {
      const std::string cross = name + ".cross_attention";
      x = residual(cross, x, attention(cross, norm(name + ".norm2", x), false, memory));
    }
    const std::string last = memory.empty() ? name + ".norm2" : name + ".norm3";
    return residual(name + ".feed", x, feed(name + ".feed", norm(last, x)));
  }
};

}  // namespace

ModelDescription describe_transformer(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  Graph graph;
  TransformerWriter writer{graph, transformer_size(read_size(options)), task.data.classes, 0, 0, 0, ""};
  writer.dropout = options.number("dropout", 0.1, kDropoutRange);
  writer.attention_dropout = options.number("attention_dropout", 0.1, kDropoutRange);
  writer.relu_dropout = options.number("relu_dropout", 0.1, kDropoutRange);
  options.finish();
  require_text(task);

  writer.lengths = graph.input("source_lengths", {kAny});
  std::string x = writer.embed("embedding", graph.input("source", {kAny, kAny}));
  for (int i = 1; i <= writer.size.layers; ++i) x = writer.layer(fmt::format("encoder{}", i), x, "");
  const std::string memory = writer.norm("encoder_norm", x);
  std::string y = writer.embed("target_embedding", graph.input("target_in", {kAny, kAny}));
  for (int i = 1; i <= writer.size.layers; ++i) y = writer.layer(fmt::format("decoder{}", i), y, memory);
  graph.add("linear", "softmax", {writer.norm("decoder_norm", y)},
            {.options = {{"in", writer.size.features}, {"out", task.data.classes}, {"bias", false}},
             .shared = {{"weight", "embedding.weight"}}});
  ModelDescription model = graph.finish();
  model.loss.targets = "target_out";
  model.loss.ignored = 0;
  model.decoder_input = "target_in";
  return model;
}

}  // namespace mlbench::models
