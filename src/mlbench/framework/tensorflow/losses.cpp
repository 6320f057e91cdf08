#include "mlbench/framework/tensorflow/losses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

BuiltLoss build_cross_entropy(Graph& graph, Output logits, Output labels) {
  // TensorFlow's rules have no gradient of this operation: its second output is the gradient.
  TF_Operation* const loss =
      graph.operation("SparseSoftmaxCrossEntropyWithLogits").input(logits).input(labels).finish();
  return {{loss, 0}, {loss, 1}};
}

// The labels as numbers, [samples, 1].
Output numbers_of(Graph& graph, Output labels) {
  const Output column = graph.binary("ExpandDims", labels, graph.integer(1));
  return graph.operation("Cast").input(column).set("DstT", TF_FLOAT).output();
}

// On logits z, this is max(z, 0) - z y + log(1 + exp(-|z|)), which neither overflows nor needs log(0).
BuiltLoss build_binary_cross_entropy(Graph& graph, Output logits, Output labels) {
  const Output y = numbers_of(graph, labels);
  const Output decay = graph.unary("Exp", graph.unary("Neg", graph.unary("Abs", logits)));
  const Output linear = graph.binary("Sub", graph.unary("Relu", logits), graph.binary("Mul", logits, y));
  return {graph.binary("AddV2", linear, graph.unary("Log1p", decay)),
          graph.binary("Sub", graph.unary("Sigmoid", logits), y)};
}

BuiltLoss build_squared_error(Graph& graph, Output outputs, Output labels) {
  const Output difference = graph.binary("Sub", outputs, numbers_of(graph, labels));
  return {graph.unary("Square", difference), graph.binary("Mul", difference, graph.constant(2.0F))};
}

void same_scores(std::span<float>) {}

constexpr SampleLoss kLosses[] = {
    {"cross_entropy", build_cross_entropy, same_scores},
    {"binary_cross_entropy", build_binary_cross_entropy,
     [](std::span<float> logits) {
       for (float& z : logits) z = 1 / (1 + std::exp(-z));
     }},
    {"mean_squared_error", build_squared_error, same_scores},
};

}  // namespace

const SampleLoss& find_loss(const models::ModelDescription& model) {
  std::vector<const char*> names;
  for (const SampleLoss& row : kLosses) {
    if (row.name == model.loss.kind) return row;
    names.push_back(row.name);
  }
  throw UserError(fmt::format("framework 'tensorflow' has no loss '{}' for model '{}'; valid: {}", model.loss.kind,
                              model.name, fmt::join(names, ", ")));
}

}  // namespace mlbench::framework::tensorflow_framework
