// `mlbench supervise ...` without the rest of mlbench.

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/base/program_start.h"
#include "mlbench/base/signals.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench {
namespace {

int run(int argc, char** argv) {
  begin_program({.held = end_signals()});
  set_up_logging("supervise");
  try {
    supervise::SupervisorOptions options = supervise::options_from_arguments({argv + 2, argv + argc});
    options.guard = GUARD;
    const auto executor = exec::local::make();
    return supervise::supervise(options, *executor);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(exit_code_of(error));
  }
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) { return mlbench::run(argc, argv); }
