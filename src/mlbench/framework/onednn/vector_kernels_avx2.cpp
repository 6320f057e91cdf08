#include "mlbench/framework/onednn/vector_kernels_body.inc"

namespace mlbench::framework::onednn_framework {

LaneTables avx2_tables() { return kTables; }

}  // namespace mlbench::framework::onednn_framework
