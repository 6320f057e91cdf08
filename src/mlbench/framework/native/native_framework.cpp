#include "mlbench/framework/native/native_framework.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/framework/native/graph/graph_framework.h"
#include "mlbench/framework/native/tape/tape_framework.h"

namespace mlbench::framework::native_framework {

namespace {

void check_precision_and_device(const FrameworkOptions& options) {
  std::vector<std::string> precisions = {"float32", "bf16"};
  if (options.model.is_graph()) precisions.emplace_back("fp16");
  if (std::ranges::find(precisions, options.precision) == precisions.end()) {
    const char* reason =
        options.precision == "tf32"   ? "tf32 is a format of NVIDIA GPUs, and this framework runs on the CPU"
        : options.precision == "fp16" ? "it has no kernels for float16 in chains of layers; framework torch has"
                                      : "it is unknown";
    throw UserError(fmt::format("framework 'native' has no precision '{}' here ({}){}", options.precision, reason,
                                valid_text(options.precision, precisions)));
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
