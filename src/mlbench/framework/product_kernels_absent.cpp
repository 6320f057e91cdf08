#include "mlbench/base/errors.h"
#include "mlbench/framework/product_kernels.h"

namespace mlbench::framework::product_kernels {

bool available(Factors) { return false; }

void pack_slice(const View&, int64_t, int64_t, Factors, float*) {
  MLBENCH_CHECK(false, "no kernels for this processor");
}
void pack_panel(const View&, int64_t, int64_t, Factors, float*) {
  MLBENCH_CHECK(false, "no kernels for this processor");
}
void multiply_tile(const Tile&, Factors) { MLBENCH_CHECK(false, "no kernels for this processor"); }

}  // namespace mlbench::framework::product_kernels
