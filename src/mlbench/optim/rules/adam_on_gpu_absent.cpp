// For builds without CUDA, whose LibTorch finds no GPU.

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/adam_on_gpu.h"

namespace mlbench::optim {

void adam_on_gpu(const AdamPart& part, const AdamCoefficients&) {
  MLBENCH_CHECK(false, "Adam for " + part.parameters.device().str() + " in a build without CUDA");
}

}  // namespace mlbench::optim
