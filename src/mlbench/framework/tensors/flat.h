#pragma once

// A framework's flat float32 buffers as tensors, for frameworks that compute with tensors.

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/separate_memory.h"
#include "mlbench/framework/framework.h"
#include "mlbench/models/model.h"

namespace mlbench::framework {

// The buffer view of a tensor in `memory`; null: the host's memory. The tensor must outlive the view.
BufferView flat_view(const at::Tensor& flat, const SeparateMemory* memory = nullptr);
// A tensor over the memory of a buffer, which must outlive the tensor.
at::Tensor flat_tensor(const BufferView& flat);
// The values of a flat tensor, which must be in the host's memory.
std::span<float> values_of(const at::Tensor& flat);

// Makes the flat gradients of `elements` zeros, in options.gradient_memory where that is set.
at::Tensor make_gradients(const FrameworkOptions& options, int64_t elements);

// A model's penalties: l1 * sum of absolute values + l2 / 2 * sum of squares of its trainable parameters, without those
// of norms.
class Penalties {
 public:
  explicit Penalties(const models::ModelDescription& model);

  double of(const at::Tensor& parameters) const;  // 0 where the model has none
  // Begins the gradients of a backward pass with the part of the penalties. As this comes before any operation's part,
  // a gradient is final when the last operation has added its part. Returns whether operations must add to the
  // gradients.
  bool begin_gradients(const at::Tensor& parameters, at::Tensor& gradients, const BackwardOptions& options) const;

 private:
  double l1_, l2_;
  // [begin, end) of the flat parameters that have penalties; none where the model has none. Each goes on to the next
  // parameter: padding is zeros, which no penalty counts.
  std::vector<std::pair<int64_t, int64_t>> stretches_;
  bool leaves_out_ = false;  // whether there are other trainable parameters
};

}  // namespace mlbench::framework
