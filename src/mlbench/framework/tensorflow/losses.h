#pragma once

// The losses over samples, with the gradients of each, as operations of a TensorFlow graph.

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

// The entry for the model's loss. Throws UserError, naming the valid losses, for another one.
const SampleLoss& find_loss(const models::ModelDescription& model);

}  // namespace mlbench::framework::tensorflow_framework
