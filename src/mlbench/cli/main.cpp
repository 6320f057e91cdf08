#include "mlbench/base/files.h"
#include "mlbench/base/signals.h"
#include "mlbench/cli/program.h"

int main(int argc, char** argv) {
  mlbench::hold_end_signals();
  mlbench::keep_files_private();
  return mlbench::cli::run_program(argc, argv);
}
