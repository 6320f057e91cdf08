#include "mlbench/catalog/worker/tensorflow.h"
#include "mlbench/worker/program.h"

int main(int argc, char** argv) {
  return mlbench::worker::run_program(argc, argv,
                                      {"mlbench-worker-tensorflow", mlbench::catalog::tensorflow_frameworks()});
}
