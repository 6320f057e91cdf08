#include "mlbench/comm/gloo/gloo.h"

namespace mlbench::comm::gloo_backend {

namespace {
constexpr const char* kReason = "built without Gloo (Debian: libgloo-dev)";
}

Availability available() { return {false, kReason}; }

std::unique_ptr<Transport> make(const CommOptions&) { throw UserError(std::string("backend gloo: ") + kReason); }

}  // namespace mlbench::comm::gloo_backend
