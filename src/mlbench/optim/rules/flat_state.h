#pragma once

// The state of a rule with one value per parameter element: a flat buffer here, named tensors in a checkpoint.

#include <ATen/ATen.h>

#include <string>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

// Exports one tensor "PREFIX/<parameter>" per trainable range of the layout, in its shape and without padding. `memory`
// is where `flat` is; null: in the host's.
void export_flat(const std::string& prefix, const FlatLayout& layout, const at::Tensor& flat, SeparateMemory* memory,
                 NamedState& state);
// Throws UserError naming a tensor that is missing or has another type or shape. Padding keeps its values.
void import_flat(const std::string& prefix, const FlatLayout& layout, const NamedState& state, SeparateMemory* memory,
                 at::Tensor& flat);

}  // namespace mlbench::optim
