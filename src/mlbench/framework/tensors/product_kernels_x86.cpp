#include <array>

#include "mlbench/framework/tensors/product_kernels.h"

namespace mlbench::framework::product_kernels {

std::span<const Kernels* const> all_kernels() {
  static constexpr std::array<const Kernels*, 2> kAll = {&kAvx512, &kAvx2};
  return kAll;
}

}  // namespace mlbench::framework::product_kernels
