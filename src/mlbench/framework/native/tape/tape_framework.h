#pragma once

// The part of the framework `native` for models that are chains of layers: a tape (network.h), or the single layer of
// task 2a (linear_rows.h; framework/tensors/sparse_linear.h for sparse rows).

#include <memory>

#include "mlbench/framework/framework.h"

namespace mlbench::framework::native_framework {

// Precondition: this framework has the precision and the device in `options`. Throws UserError for a layer or loss that
// this framework lacks, and for bf16 where it cannot be had.
std::unique_ptr<Framework> make_tape_framework(const FrameworkOptions& options);

}  // namespace mlbench::framework::native_framework
