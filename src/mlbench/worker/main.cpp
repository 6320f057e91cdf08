#include "mlbench/catalog/worker/frameworks.h"
#include "mlbench/worker/program.h"

int main(int argc, char** argv) {
  return mlbench::worker::run_program(argc, argv, {"mlbench-worker", mlbench::catalog::frameworks()});
}
