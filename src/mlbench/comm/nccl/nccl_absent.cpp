#include "mlbench/base/errors.h"
#include "mlbench/comm/nccl/nccl.h"

namespace mlbench::comm::nccl_backend {

namespace {
constexpr const char* kReason = "built without NCCL (-DMLBENCH_NCCL=ON; tools/setup.sh nccl fetches it)";
}

Availability available() { return {false, kReason}; }

std::unique_ptr<Transport> make(const CommOptions&) { throw UserError(std::string("backend nccl: ") + kReason); }

}  // namespace mlbench::comm::nccl_backend
