#pragma once

// The losses over samples. The loss over tokens is fused with the last layer (tensors/token_loss.h).

#include <ATen/ATen.h>

#include "mlbench/models/model.h"

namespace mlbench::framework::torch_framework {

struct SampleLoss {
  const char* name;
  // The mean loss over the batch, from logits and int64 labels. Null for the loss over tokens.
  at::Tensor (*mean)(const at::Tensor& logits, const at::Tensor& labels);
  // The outputs that metrics see, from the logits. Null for the loss over tokens.
  at::Tensor (*scores)(const at::Tensor& logits);
};

// The entry for the model's loss. Throws UserError, naming the valid losses, for another one.
const SampleLoss& find_loss(const models::ModelDescription& model);

}  // namespace mlbench::framework::torch_framework
