#include "mlbench/base/errors.h"
#include "mlbench/framework/native/native_framework.h"

namespace mlbench::framework::onednn_framework {

namespace {
constexpr const char* kReason = "built without oneDNN (Debian: libdnnl-dev)";
}

Availability available() { return {false, kReason}; }

std::unique_ptr<Framework> make(const FrameworkOptions&) {
  throw UserError(std::string("framework 'onednn': ") + kReason);
}

}  // namespace mlbench::framework::onednn_framework
