#pragma once

// The decoder of a SequenceModel.

#include <functional>
#include <memory>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/torch/sequence_model.h"

namespace mlbench::framework::torch_framework {

// `bring` gives the tensors of a batch on the network's device. What `model` and `bring` refer to outlives the decoder.
std::unique_ptr<Decoder> make_sequence_decoder(const SequenceModel& model,
                                               std::function<SequenceModel::Values(const BatchView& batch)> bring);

}  // namespace mlbench::framework::torch_framework
