#pragma once

namespace mlbench::cli {

// The whole program `mlbench`: parses the command line, runs the verb, and returns its exit code. Exceptions become
// messages on standard error and exit codes (base/errors.h).
int run_program(int argc, char** argv);

}  // namespace mlbench::cli
