#pragma once

// A flat float32 tensor in a checkpoint, with its padding: what a coder keeps of its own.

#include <ATen/ATen.h>

#include <string>

#include "mlbench/base/named_state.h"

namespace mlbench::compress {

void export_values(const std::string& key, const at::Tensor& flat, NamedState& state);
// Throws UserError where the stored tensor is missing, or of another type or size.
void import_values(const std::string& key, const NamedState& state, at::Tensor& flat);

}  // namespace mlbench::compress
