#pragma once

// Models without kinks, for tests that compare whole models. A value next to the kink of a ReLU, or between two equal
// maxima, may fall on different sides in two implementations. That is no error, but it changes the gradient. The
// maximum over a whole plane (global_avg_max_pool2d) stays: two pixels of a plane are seldom that close.

#include <utility>

#include "mlbench/models/model.h"

namespace mlbench::models {

inline std::vector<LayerSpec> smooth(std::vector<LayerSpec> layers) {
  for (LayerSpec& layer : layers) {
    if (layer.kind == "relu") layer.kind = "softplus";
    if (layer.kind == "max_pool2d") layer.kind = "avg_pool2d";
    layer.body = smooth(std::move(layer.body));
    layer.shortcut = smooth(std::move(layer.shortcut));
  }
  return layers;
}

// The model with softplus for ReLU and mean for max pooling: differentiable everywhere, with the same parameters.
inline ModelDescription smooth(ModelDescription model) {
  model.layers = smooth(std::move(model.layers));
  return model;
}

}  // namespace mlbench::models
