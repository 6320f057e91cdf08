#pragma once

// The kernels that each of vector_kernels_*.cpp exports. Only vector_kernels.cpp and these files include this header.

#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

struct VectorTables {
  const VectorKernels<float>* float8;
  const VectorKernels<float>* float16;  // 16 lanes of float, as the digits of all names count lanes
  const VectorKernels<BFloat16>* bfloat8;
  const VectorKernels<BFloat16>* bfloat16;
  const RowKernels* rows;
  const WinogradKernels* winograd8;
  const WinogradKernels* winograd16;
};

VectorTables portable_tables();
VectorTables avx2_tables();
VectorTables avx512_tables();
VectorTables avx512_bf16_tables();

}  // namespace mlbench::framework::native_framework
