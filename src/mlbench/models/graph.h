#pragma once

// Writes a graph down: layers that name the values they take and yield. Shapes, options and parameters are followed by
// layer_kinds.h; a parameter stands in the neutral order where the first layer that uses it stands.

#include <map>
#include <string>
#include <vector>

#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"

namespace mlbench::models {

// What a layer needs beside its kind, its name and what it takes.
struct GraphLayer {
  Json options = Json::object();
  std::map<std::string, Initialiser> initialisers = {};  // by role; for each parameter that is the layer's own
  std::map<std::string, std::string> shared = {};        // LayerSpec::shared
};

class Graph {
 public:
  // A tensor of the batch; its name is the value's.
  std::string input(const std::string& name, const Shape& shape);

  using Layer = GraphLayer;
  // Its output, which has the layer's name.
  std::string add(const std::string& kind, const std::string& name, const std::vector<std::string>& inputs,
                  const Layer& layer = {});

  // ---- short forms of the above
  std::string dropout(const std::string& name, const std::string& x, double p);         // x itself where p is 0
  std::string locked_dropout(const std::string& name, const std::string& x, double p);  // likewise
  std::string sum(const std::string& name, const std::string& a, const std::string& b);
  std::string concat(const std::string& name, const std::string& a, const std::string& b);

  int64_t features(const std::string& value) const { return shapes_.at(value).back(); }

  void penalty(const std::string& value);  // a scalar
  // The last layer's output are the logits.
  ModelDescription finish();

 private:
  ModelDescription model_;
  std::map<std::string, Shape> shapes_;  // of values
  std::map<std::string, Shape> parameters_;
};

}  // namespace mlbench::models
