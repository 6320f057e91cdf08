#include "mlbench/base/errors.h"
#include "mlbench/comm/nccl/gpu_memory.h"
#include "mlbench/comm/nccl/nccl.h"

namespace mlbench::comm::nccl_backend {

namespace {
constexpr const char* kReason = "built without NCCL (-DMLBENCH_NCCL=ON; tools/setup.sh nccl fetches it)";
}

Availability available() { return {false, kReason}; }

std::unique_ptr<Transport> make(const CommOptions&) { throw UserError(std::string("backend nccl: ") + kReason); }

std::unique_ptr<Memory> make_memory(const CommOptions&) {
  throw UserError(std::string("buffers on a GPU: ") + kReason);
}

}  // namespace mlbench::comm::nccl_backend
