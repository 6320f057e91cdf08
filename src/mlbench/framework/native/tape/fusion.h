#pragma once

// Says which neighbouring layers become one operation, where that saves passes over memory: batch_norm2d+relu;
// relu+max_pool2d; and a residual sum with the batch_norm2d at the end of its body and the ReLU after the sum.

#include <span>
#include <string>
#include <vector>

#include "mlbench/models/model.h"

namespace mlbench::framework::native_framework {

// One layer, or two that become one operation. The pointers refer to the model's description.
struct FusedLayer {
  const models::LayerSpec* layer = nullptr;
  size_t index = 0;                         // the place of `layer` in its chain
  const models::LayerSpec* next = nullptr;  // the next layer, if the same operation computes it; null: one layer

  std::string name() const { return next != nullptr ? layer->kind + "+" + next->kind : layer->kind; }
};
// All layers of a chain in order, each in one element.
std::vector<FusedLayer> fuse(std::span<const models::LayerSpec> chain);

// A chain without the batch_norm2d at its end, and that layer; null: the chain ends in another layer.
struct NormalisedChain {
  std::span<const models::LayerSpec> layers;
  const models::LayerSpec* norm = nullptr;
};
NormalisedChain split_norm(std::span<const models::LayerSpec> chain);

}  // namespace mlbench::framework::native_framework
