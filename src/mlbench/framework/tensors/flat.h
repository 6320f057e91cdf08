#pragma once

// A framework's flat float32 buffers as tensors, for those that compute with tensors.

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mlbench/base/buffer.h"
#include "mlbench/base/separate_memory.h"
#include "mlbench/framework/framework.h"
#include "mlbench/models/model.h"

namespace mlbench::framework {

// The buffer that a tensor is, in that memory; null: the host's. The tensor outlives the view.
BufferView flat_view(const at::Tensor& flat, const SeparateMemory* memory = nullptr);
// The tensor over a buffer, which outlives it.
at::Tensor flat_tensor(const BufferView& flat);
// The values of a flat tensor in the host's memory.
std::span<float> values_of(const at::Tensor& flat);

// Zeros, in the memory that the options name.
at::Tensor make_gradients(const FrameworkOptions& options, int64_t elements);

// The model's L2 penalty.
double l2_penalty(const models::ModelDescription& model, const at::Tensor& parameters);
// Its part of the gradients, before any operation's: so one is final when its operation has added its part. Returns
// whether operations add to what is there.
bool begin_gradients(const models::ModelDescription& model, const at::Tensor& parameters, at::Tensor& gradients,
                     const BackwardOptions& options);

}  // namespace mlbench::framework
