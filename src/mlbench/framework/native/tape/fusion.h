#pragma once

// Which neighbouring layers become one operation, where that saves passes over memory: batch_norm2d+relu,
// relu+max_pool2d, and a residual sum and the ReLU after it with the batch_norm2d at the end of the body.

#include <span>
#include <string>
#include <vector>

#include "mlbench/models/model.h"

namespace mlbench::framework::native_framework {

// Views of the description.
struct FusedLayer {
  const models::LayerSpec* layer = nullptr;
  size_t index = 0;                         // its place in its chain
  const models::LayerSpec* next = nullptr;  // the layer after it, which its operation computes, too; null: none

  std::string name() const { return next != nullptr ? layer->kind + "+" + next->kind : layer->kind; }
};
// All layers of a chain, each once, in order.
std::vector<FusedLayer> fuse(std::span<const models::LayerSpec> chain);

// A chain and the batch_norm2d at its end; null: it ends in another layer.
struct NormalisedChain {
  std::span<const models::LayerSpec> layers;
  const models::LayerSpec* norm = nullptr;
};
NormalisedChain split_norm(std::span<const models::LayerSpec> chain);

}  // namespace mlbench::framework::native_framework
