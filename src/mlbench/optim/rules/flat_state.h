#pragma once

// State of a rule that has one value per parameter element: a flat buffer in here, named tensors in a checkpoint.

#include <ATen/ATen.h>

#include <string>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

// `memory`: where `flat` is; null: the host's. One tensor "PREFIX/<parameter>" per trainable range of the layout, in
// its shape, without padding.
void export_flat(const std::string& prefix, const FlatLayout& layout, const at::Tensor& flat, SeparateMemory* memory,
                 NamedState& state);
// UserError naming the tensor that is missing or has another type or shape. Padding stays as it is.
void import_flat(const std::string& prefix, const FlatLayout& layout, const NamedState& state, SeparateMemory* memory,
                 at::Tensor& flat);

}  // namespace mlbench::optim
