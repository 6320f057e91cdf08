// A worker program beside mlbench-worker, for tests: in the place of mlbench-worker-tensorflow, with a framework that
// computes nothing and has the layers of small images alone. None of the frameworks of mlbench-worker is linked.

#include "mlbench/framework/null/null_framework.h"
#include "mlbench/worker/program.h"

namespace mlbench {
namespace {

std::vector<std::string_view> layers() { return {"conv2d", "relu", "max_pool2d", "flatten", "linear", "dropout"}; }

const catalog::WorkerProgram kToy = {"mlbench-worker-tensorflow",
                                     {{.name = "tensorflow",
                                       .available = framework::null_framework::available,
                                       .make = framework::null_framework::make,
                                       .about = "a toy",
                                       .layers = layers,
                                       .decodes = false}}};

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) { return mlbench::worker::run_program(argc, argv, mlbench::kToy); }
