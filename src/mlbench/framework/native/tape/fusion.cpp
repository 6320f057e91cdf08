#include "mlbench/framework/native/tape/fusion.h"

#include <algorithm>

namespace mlbench::framework::native_framework {

namespace {

struct FusiblePair {
  const char* first;
  const char* second;
  bool (*takes)(const models::LayerSpec& first);
};
constexpr FusiblePair kFusiblePairs[] = {
    {"batch_norm2d", "relu", [](const models::LayerSpec&) { return true; }},
    {"residual", "relu", [](const models::LayerSpec& residual) { return split_norm(residual.body).norm != nullptr; }},
    {"relu", "max_pool2d", [](const models::LayerSpec&) { return true; }},
};

bool are_fusible(const models::LayerSpec& first, const models::LayerSpec& second) {
  return std::ranges::any_of(kFusiblePairs, [&](const FusiblePair& pair) {
    return pair.first == first.kind && pair.second == second.kind && pair.takes(first);
  });
}

}  // namespace

std::vector<FusedLayer> fuse(std::span<const models::LayerSpec> chain) {
  std::vector<FusedLayer> fused;
  for (size_t i = 0; i < chain.size(); ++i) {
    FusedLayer one{&chain[i], i, nullptr};
    if (i + 1 < chain.size() && are_fusible(chain[i], chain[i + 1])) one.next = &chain[++i];
    fused.push_back(one);
  }
  return fused;
}

NormalisedChain split_norm(std::span<const models::LayerSpec> chain) {
  if (chain.empty() || chain.back().kind != "batch_norm2d") return {chain, nullptr};
  return {chain.first(chain.size() - 1), &chain.back()};
}

}  // namespace mlbench::framework::native_framework
