#pragma once

// The losses, with the gradients of each, as operations of a TensorFlow graph.

#include <span>

#include "mlbench/framework/tensorflow/graph.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::tensorflow_framework {

struct BuiltLoss {
  Output values;    // the loss of each sample
  Output gradient;  // [samples, outputs]: that of each sample's loss with respect to its logits
};

struct SampleLoss {
  const char* name;
  // From logits [samples, outputs] and int64 labels [samples].
  BuiltLoss (*build)(Graph& graph, Output logits, Output labels);
  // Turns logits into what metrics see, in place.
  void (*scores)(std::span<float> logits);
};

// The entry for the model's loss over samples. Throws UserError, naming the valid losses, for another one.
const SampleLoss& find_loss(const models::ModelDescription& model);

// A loss over tokens, for rows of logits.
struct BuiltTokenLoss {
  Output values, nll;  // [rows]; 0 where the target is ignored
  Output gradient;  // [rows, classes]: that of each row's loss with respect to its logits, as if no target were ignored
  Output counted;   // [rows]: 1, or 0 where the target is ignored
};
// From logits [rows, classes] and int64 targets [rows].
BuiltTokenLoss build_token_loss(Graph& graph, const models::ModelDescription& model, Output logits, Output targets);
// Throws UserError unless the loss of a model over tokens is.
void require_token_loss(const models::ModelDescription& model);

}  // namespace mlbench::framework::tensorflow_framework
