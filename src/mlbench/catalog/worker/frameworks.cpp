#include "mlbench/catalog/worker/frameworks.h"

#include <iterator>

#include "mlbench/framework/native/native_framework.h"
#include "mlbench/framework/null/null_framework.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& frameworks() {
  static const std::vector<FrameworkRow> kRows = {
      {.name = "torch",
       .available = framework::torch_framework::available,
       .make = framework::torch_framework::make,
       .about = "LibTorch: PyTorch's kernels and automatic differentiation",
       .inter_op = true,
       .precisions = {"float32", "tf32", "bf16", "fp16"},
       .devices = {"cpu", "cuda"},
       .sparse_rows = true},
      {.name = "native",
       .available = framework::native_framework::available,
       .make = framework::native_framework::make,
       .about = "kernels of mlbench and of oneDNN, for CPUs",
       .profile = true,
       .precisions = {"float32", "bf16", "fp16"},
       .convolutions = {std::begin(spec::kConvolutions), std::end(spec::kConvolutions)},
       .sparse_rows = true},
      // It computes nothing, so any precision will do.
      {.name = "null",
       .available = framework::null_framework::available,
       .make = framework::null_framework::make,
       .about = "computes nothing: what all else of a step costs",
       .precisions = {"float32", "tf32", "bf16", "fp16"},
       .decodes = false,
       .computes = false,
       .sparse_rows = true},
  };
  return kRows;
}

}  // namespace mlbench::catalog
