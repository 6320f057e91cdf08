#include "mlbench/framework/onednn/lane_kernels_body.inc"
#include "mlbench/framework/onednn/lane_tables.h"

namespace mlbench::framework::onednn_framework {

LaneTables avx512_bf16_tables() {
  return {&kKernels<8, float>, &kKernels<16, float>, &kKernels<8, BFloat16>, &kKernels<16, BFloat16>, &kRowKernels};
}

}  // namespace mlbench::framework::onednn_framework
