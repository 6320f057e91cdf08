#pragma once

// The inputs of a model over tokens as rows without padding, from the tensors of a batch.

#include <map>
#include <string>

#include "mlbench/base/batch.h"
#include "mlbench/framework/tensors/row_plan.h"
#include "mlbench/models/model.h"

namespace mlbench::framework {

// A dense tensor of integers, as it lies in the batch.
at::Tensor integers_of(const BatchTensor& tensor);

// The values of those of the model's inputs that `batch` has, by name, in the host's memory; their plans are for
// `device`. Of the decoder's input, positions after the last target that counts have no row: no earlier position sees
// them, as the decoder reads from left to right. Fails MLBENCH_CHECK for tokens outside of the vocabulary.
std::map<std::string, GraphValue> token_inputs(const models::ModelDescription& model, const BatchView& batch,
                                               const at::Device& device = at::kCPU);

// The plan of `sequences` sequences of one position, which a decoder computes at a time.
std::shared_ptr<const RowPlan> plan_of_one_position(int64_t sequences, const at::Device& device = at::kCPU);

}  // namespace mlbench::framework
