#pragma once

// Writes a graph: layers name the values that they take and yield. layer_kinds.h gives shapes, options and parameters.
// A parameter's place in the neutral order is that of the first layer that uses it.

#include <map>
#include <string>
#include <vector>

#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"

namespace mlbench::models {

// What a layer needs beside its kind, its name and its inputs.
struct GraphLayer {
  Json options = Json::object();
  std::map<std::string, Initialiser> initialisers = {};  // by role; one for each parameter that is the layer's own
  std::map<std::string, std::string> shared = {};        // LayerSpec::shared
};

class Graph {
 public:
  // A tensor of the batch. The value has the tensor's name.
  std::string input(const std::string& name, const Shape& shape);

  using Layer = GraphLayer;
  // Returns the layer's output, a value with the layer's name.
  std::string add(const std::string& kind, const std::string& name, const std::vector<std::string>& inputs,
                  const Layer& layer = {});

  // ---- short forms of add()
  std::string dropout(const std::string& name, const std::string& x, double p);         // x itself where p is 0
  std::string locked_dropout(const std::string& name, const std::string& x, double p);  // x itself where p is 0
  std::string sum(const std::string& name, const std::string& a, const std::string& b);
  std::string concat(const std::string& name, const std::string& a, const std::string& b);

  int64_t features(const std::string& value) const { return shapes_.at(value).back(); }

  void penalty(const std::string& value);  // adds a scalar value to the loss
  // The last layer's output is the logits.
  ModelDescription finish();

 private:
  ModelDescription model_;
  std::map<std::string, Shape> shapes_;  // by value
  std::map<std::string, Shape> parameters_;
};

}  // namespace mlbench::models
