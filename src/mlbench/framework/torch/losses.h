#pragma once

// The losses over samples. That over tokens is fused to the last layer (token_loss.h).

#include <ATen/ATen.h>

#include "mlbench/models/model.h"

namespace mlbench::framework::torch_framework {

struct SampleLoss {
  const char* name;
  // Mean over the batch, from logits and int64 labels; null: over tokens.
  at::Tensor (*mean)(const at::Tensor& logits, const at::Tensor& labels);
  // What metrics see.
  at::Tensor (*scores)(const at::Tensor& logits);
};

// The row of the model's loss. UserError naming the valid ones.
const SampleLoss& find_loss(const models::ModelDescription& model);

}  // namespace mlbench::framework::torch_framework
