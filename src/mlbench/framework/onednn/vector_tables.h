#pragma once

// What each of lane_kernels_*.cpp exports. Internal to lane_kernels.

#include "mlbench/framework/onednn/vector_kernels.h"

namespace mlbench::framework::onednn_framework {

struct LaneTables {
  const LaneKernels<float>* float8;
  const LaneKernels<float>* float16;  // 16 lanes
  const LaneKernels<BFloat16>* bfloat8;
  const LaneKernels<BFloat16>* bfloat16;
  const RowKernels* rows;
};

LaneTables portable_tables();
LaneTables avx2_tables();
LaneTables avx512_tables();
LaneTables avx512_bf16_tables();

}  // namespace mlbench::framework::onednn_framework
