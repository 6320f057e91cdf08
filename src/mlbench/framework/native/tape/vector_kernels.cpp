#include "mlbench/framework/native/tape/vector_kernels.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/tape/vector_tables.h"

namespace mlbench::framework::native_framework {

namespace {

VectorTables tables_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
      return avx512_bf16_tables();
    case InstructionSet::kAvx512:
      return avx512_tables();
    case InstructionSet::kAvx2:
      return avx2_tables();
    case InstructionSet::kPortable:
      break;
  }
  return portable_tables();
}

template <typename Kernels>
const Kernels& of_lanes(int lanes, const Kernels* eight, const Kernels* sixteen) {
  MLBENCH_CHECK(lanes == 8 || lanes == 16, "kernels of " + std::to_string(lanes) + " lanes");
  return lanes == 8 ? *eight : *sixteen;
}

}  // namespace

const char* name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kPortable:
      break;
  }
  return "portable";
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets = {InstructionSet::kPortable};
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (has(dnnl::cpu_isa::avx2)) sets.push_back(InstructionSet::kAvx2);
  if (has(dnnl::cpu_isa::avx512_core)) sets.push_back(InstructionSet::kAvx512);
  if (has(dnnl::cpu_isa::avx512_core_bf16)) sets.push_back(InstructionSet::kAvx512Bf16);
  return sets;
}

template <>
const VectorKernels<float>& vector_kernels<float>(InstructionSet set, int lanes) {
  const VectorTables tables = tables_of(set);
  return of_lanes(lanes, tables.float8, tables.float16);
}

template <>
const VectorKernels<BFloat16>& vector_kernels<BFloat16>(InstructionSet set, int lanes) {
  const VectorTables tables = tables_of(set);
  return of_lanes(lanes, tables.bfloat8, tables.bfloat16);
}

const RowKernels& row_kernels(InstructionSet set) { return *tables_of(set).rows; }

const WinogradKernels& winograd_kernels(InstructionSet set, int lanes) {
  const VectorTables tables = tables_of(set);
  return of_lanes(lanes, tables.winograd8, tables.winograd16);
}

}  // namespace mlbench::framework::native_framework
