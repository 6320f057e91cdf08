#include "mlbench/framework/native/tape/vector_kernels_body.inc"

namespace mlbench::framework::native_framework {

VectorTables avx2_tables() { return kTables; }

}  // namespace mlbench::framework::native_framework
