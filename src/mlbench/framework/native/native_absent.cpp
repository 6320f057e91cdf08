#include "mlbench/base/errors.h"
#include "mlbench/framework/native/native_framework.h"

namespace mlbench::framework::native_framework {

namespace {
constexpr const char* kReason = "built without oneDNN (Debian: libdnnl-dev)";
}

Availability available() { return {false, kReason}; }

std::unique_ptr<Framework> make(const FrameworkOptions&) {
  throw UserError(std::string("framework 'native': ") + kReason);
}

}  // namespace mlbench::framework::native_framework
