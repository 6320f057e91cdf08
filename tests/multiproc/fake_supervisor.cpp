// `mlbench supervise ...` without the rest of mlbench.

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/supervise/supervisor.h"

int main(int argc, char** argv) {
  using namespace mlbench;
  set_up_logging("supervise");
  try {
    const std::vector<std::string> arguments(argv + 2, argv + argc);
    const auto executor = exec::local::make();
    return supervise::supervise(supervise::options_from_arguments(arguments), *executor);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(exit_code_of(error));
  }
}
