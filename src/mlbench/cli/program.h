#pragma once

namespace mlbench::cli {

// The whole of `mlbench`: parses, runs the verb, maps exceptions to exit codes (base/errors.h).
int run_program(int argc, char** argv);

}  // namespace mlbench::cli
