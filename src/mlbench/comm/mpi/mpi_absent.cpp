#include "mlbench/comm/mpi/mpi.h"

namespace mlbench::comm::mpi_backend {

namespace {
constexpr const char* kReason = "built without MPI (Debian: libopenmpi-dev)";
}

Availability available() { return {false, kReason}; }

std::unique_ptr<Transport> make(const CommOptions&) { throw UserError(std::string("backend mpi: ") + kReason); }

std::unique_ptr<Transport> make_in_parts(const CommOptions& options, int64_t) { return make(options); }

}  // namespace mlbench::comm::mpi_backend
