#pragma once

// What coders that send some elements of a flat tensor have in common.

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/compress/coder.h"

namespace mlbench::compress {

// The number of elements that are a share of `count`, or of all trainable ones: at least 1, where there is one.
int64_t count_of(double share, int64_t count);
int64_t count_of(double share, const FlatLayout& layout);

// The elements of `whole` at `indices`, to be gathered: the indices, then the bits of the values, as one list of whole
// numbers. 8 bytes per element.
Payload sparse_payload(const at::Tensor& whole, const std::vector<int32_t>& indices);

// Adds such payloads to `sums`, in their order.
void add_elements(std::span<const at::Tensor> payloads, at::Tensor& sums);

// Sets the elements at `indices` to zero.
void clear_elements(const std::vector<int32_t>& indices, at::Tensor& flat);

// A float32 tensor as whole numbers of a payload are read: its values.
std::span<const float> values_of(const at::Tensor& tensor);

}  // namespace mlbench::compress
