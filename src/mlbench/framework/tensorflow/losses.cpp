#include "mlbench/framework/tensorflow/losses.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

// TensorFlow's rules have no gradient of these operations: their second output is the gradient.
BuiltLoss cross_entropy_by(Graph& graph, const char* kind, Output logits, Output labels) {
  TF_Operation* const loss = graph.operation(kind).input(logits).input(labels).finish();
  return {{loss, 0}, {loss, 1}};
}

BuiltLoss build_cross_entropy(Graph& graph, Output logits, Output labels) {
  return cross_entropy_by(graph, "SparseSoftmaxCrossEntropyWithLogits", logits, labels);
}

// The labels are probabilities: e / V each, and 1 - e more for the target.
BuiltLoss build_smoothed(Graph& graph, const models::ModelDescription& model, Output logits, Output targets) {
  const auto rest = static_cast<float>(model.loss.label_smoothing / static_cast<double>(model.outputs));
  const Output labels = graph.operation("OneHot")
                            .input(targets)
                            .input(graph.integer(static_cast<int32_t>(model.outputs)))
                            .input(graph.constant(static_cast<float>(1 - model.loss.label_smoothing) + rest))
                            .input(graph.constant(rest))
                            .output();
  return cross_entropy_by(graph, "SoftmaxCrossEntropyWithLogits", logits, labels);
}

// The labels as numbers, [samples, 1].
Output numbers_of(Graph& graph, Output labels) {
  const Output column = graph.binary("ExpandDims", labels, graph.integer(1));
  return graph.cast(column, TF_FLOAT);
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

constexpr const char* kTokenLoss = "token_cross_entropy";

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
  for (const SampleLoss& row : kLosses) {
    if (row.name == model.loss.kind) return row;
  }
  throw UserError(fmt::format("framework 'tensorflow' has no loss '{}' for model '{}'{}", model.loss.kind, model.name,
                              valid_text(model.loss.kind, names_of(kLosses))));
}

BuiltTokenLoss build_token_loss(Graph& graph, const models::ModelDescription& model, Output logits, Output targets) {
  const BuiltLoss exact = build_cross_entropy(graph, logits, targets);
  const BuiltLoss loss = model.loss.label_smoothing == 0 ? exact : build_smoothed(graph, model, logits, targets);
  const Output differs = graph.binary("NotEqual", targets, graph.long_integer(model.loss.ignored));
  const Output counted = graph.cast(differs, TF_FLOAT);
  return {graph.binary("Mul", loss.values, counted), graph.binary("Mul", exact.values, counted), loss.gradient,
          counted};
}

void require_token_loss(const models::ModelDescription& model) {
  if (model.loss.kind == kTokenLoss) return;
  throw UserError(fmt::format("framework 'tensorflow' has no loss '{}' for a model over tokens; valid: {}",
                              model.loss.kind, kTokenLoss));
}

}  // namespace mlbench::framework::tensorflow_framework
