#pragma once

// The layers of graphs over tokens (models/layer_kinds.h) as operations of a TensorFlow graph, each with its gradients.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/framework/tensorflow/layers.h"

namespace mlbench::framework::tensorflow_framework {

// Throws UserError for a kind of layer that this framework lacks in graphs, naming those that it has. The last layer of
// a graph, which is linear, is not built here.
BuiltLayer build_graph_layer(const LayerInput& input, const LayerContext& context, const std::string& model);
// The kinds that build_graph_layer() takes.
std::vector<std::string_view> graph_layers();

// An extent of x, as int64.
Output extent_of(Graph& graph, Output x, int32_t axis);
// The numbers from 0 below an extent of x, {extent}, as int64.
Output numbers_below(Graph& graph, Output x, int32_t axis);

// ---- Attention is in attention_layers.cpp.
BuiltLayer build_multi_head_attention(const LayerInput& in, const LayerContext& context);
BuiltLayer build_additive_attention(const LayerInput& in, const LayerContext& context);

}  // namespace mlbench::framework::tensorflow_framework
