// `mlbench supervise ...` and `mlbench guard-rank ...` without the rest of mlbench.

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/exec/guard.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/supervise/supervisor.h"

int main(int argc, char** argv) {
  using namespace mlbench;
  set_up_logging("supervise");
  try {
    const std::vector<std::string> arguments(argv + 2, argv + argc);
    if (std::string_view(argv[1]) == "guard-rank") return exec::guard_rank(arguments);
    const auto executor = exec::local::make();
    return supervise::supervise(supervise::options_from_arguments(arguments), *executor);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(exit_code_of(error));
  }
}
