#include "mlbench/framework/native/library.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "mlbench/base/errors.h"

namespace mlbench::framework::native_framework {

void require_bfloat16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  if ((isa & kNeeded) != kNeeded) {
    throw UserError(
        "framework 'native' has no precision 'bf16' here: this CPU has neither AVX512-BF16 nor AMX (or "
        "ONEDNN_MAX_CPU_ISA hides it); valid: float32");
  }
}

Json onednn_versions() {
  const dnnl_version_t* version = dnnl_version();
  return {{"onednn", fmt::format("{}.{}.{}", version->major, version->minor, version->patch)}};
}

}  // namespace mlbench::framework::native_framework
