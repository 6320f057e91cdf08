// mlbench-guard: the parent of one rank. See README.md.

#include <signal.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/program_start.h"
#include "mlbench/guard/guard.h"
#include "mlbench/guard/openmpi.h"

int main(int argc, char** argv) {
  // All signals are held, so that only SIGKILL ends the guard: those that matter are read from a descriptor.
  sigset_t all;
  sigfillset(&all);
  try {
    mlbench::begin_program({.held = all, .launched = true});
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (mlbench::guard::is_call(arguments)) return mlbench::guard::call_guard(arguments);
    return mlbench::guard::guard_rank(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mlbench-guard: %s\n", error.what());
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
