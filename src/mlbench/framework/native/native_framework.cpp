#include "mlbench/framework/native/native_framework.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/graph/graph_framework.h"
#include "mlbench/framework/native/tape/tape_framework.h"

namespace mlbench::framework::native_framework {

namespace {

void check_precision_and_device(const FrameworkOptions& options) {
  const bool graph = options.model.is_graph();
  if (options.precision != "float32" && options.precision != "bf16" && !(graph && options.precision == "fp16")) {
    const char* reason =
        options.precision == "tf32"   ? "tf32 is a format of NVIDIA GPUs, and this framework runs on the CPU"
        : options.precision == "fp16" ? "it has no kernels for float16 in chains of layers; framework torch has"
                                      : "it is unknown";
    throw UserError(fmt::format("framework 'native' has no precision '{}' here ({}); valid: float32, bf16{}",
                                options.precision, reason, graph ? ", fp16" : ""));
  }
  if (options.device != "cpu") {
    throw UserError(fmt::format("framework 'native' has no device '{}'; valid: cpu", options.device));
  }
}

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Framework> make(const FrameworkOptions& options) {
  check_precision_and_device(options);
  return options.model.is_graph() ? make_graph_framework(options) : make_tape_framework(options);
}

}  // namespace mlbench::framework::native_framework
