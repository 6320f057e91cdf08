#include "mlbench/base/errors.h"
#include "mlbench/framework/tensorflow/factory.h"

namespace mlbench::framework::tensorflow_framework {

namespace {
constexpr const char* kReason =
    "built without TensorFlow (tools/setup.sh tensorflow, then cmake with -DMLBENCH_TENSORFLOW=ON)";
}

std::vector<std::string_view> layers() { return {}; }

Availability available() { return {false, kReason}; }

std::unique_ptr<Framework> make(const FrameworkOptions&) {
  throw UserError(std::string("framework 'tensorflow': ") + kReason);
}

}  // namespace mlbench::framework::tensorflow_framework
