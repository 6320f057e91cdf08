#include "mlbench/models/graph.h"

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::models {

std::string Graph::input(const std::string& name, const Shape& shape) {
  MLBENCH_CHECK(shapes_.emplace(name, shape).second, "two values " + name);
  model_.inputs.push_back(name);
  return name;
}

std::string Graph::add(const std::string& kind, const std::string& name, const std::vector<std::string>& inputs,
                       const Layer& layer) {
  const LayerKind& row = find_layer_kind(kind);
  MLBENCH_CHECK(row.in_graphs && inputs.size() >= row.least_inputs && inputs.size() <= row.most_inputs, name);
  LayerSpec spec;
  spec.kind = kind;
  spec.name = name;
  spec.options = layer.options;
  spec.inputs = inputs;
  spec.output = name;
  spec.shared = layer.shared;
  for (const char* option : row.options) {
    MLBENCH_CHECK(spec.options.contains(option) || std::string(option) == "bias", name + " lacks " + option);
  }
  for (const ParameterShape& parameter : row.parameters(spec)) {
    const std::string full = parameter_name(spec, parameter.role);
    if (spec.shared.contains(parameter.role)) {
      MLBENCH_CHECK(parameters_.contains(full) && parameters_.at(full) == parameter.shape, name + " shares " + full);
      continue;
    }
    MLBENCH_CHECK(layer.initialisers.contains(parameter.role), full + " has no initialiser");
    MLBENCH_CHECK(parameters_.emplace(full, parameter.shape).second, "two parameters " + full);
    model_.parameters.push_back(
        {full, parameter.shape, layer.initialisers.at(parameter.role), parameter.trainable, parameter.use});
  }
  std::vector<Shape> shapes;
  for (const std::string& value : inputs) {
    MLBENCH_CHECK(shapes_.contains(value), name + " takes " + value + ", which nobody has made yet");
    shapes.push_back(shapes_.at(value));
  }
  MLBENCH_CHECK(shapes_.emplace(name, row.output(spec, shapes)).second, "two values " + name);
  model_.layers.push_back(std::move(spec));
  return name;
}

std::string Graph::dropout(const std::string& name, const std::string& x, double p) {
  return p > 0 ? add("dropout", name, {x}, {.options = {{"p", p}}}) : x;
}

std::string Graph::locked_dropout(const std::string& name, const std::string& x, double p) {
  return p > 0 ? add("locked_dropout", name, {x}, {.options = {{"p", p}}}) : x;
}

std::string Graph::sum(const std::string& name, const std::string& a, const std::string& b) {
  return add("add", name, {a, b});
}

std::string Graph::concat(const std::string& name, const std::string& a, const std::string& b) {
  return add("concat", name, {a, b});
}

void Graph::penalty(const std::string& value) {
  MLBENCH_CHECK(shapes_.at(value).empty(), value + " is no scalar");
  model_.penalties.push_back(value);
}

ModelDescription Graph::finish() {
  MLBENCH_CHECK(!model_.layers.empty() && !model_.inputs.empty(), "an empty graph");
  model_.outputs = shapes_.at(model_.layers.back().output).back();
  std::stable_partition(model_.parameters.begin(), model_.parameters.end(),
                        [](const ParameterSpec& parameter) { return parameter.trainable; });
  return std::move(model_);
}

}  // namespace mlbench::models
