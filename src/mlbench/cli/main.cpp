#include "mlbench/cli/program.h"

int main(int argc, char** argv) { return mlbench::cli::run_program(argc, argv); }
