#include "mlbench/catalog/programs/programs.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/own_variables.h"

namespace mlbench::catalog {
namespace {

constexpr ProgramRow kPrograms[] = {
    {.name = "mlbench-worker", .build = "-DMLBENCH_WORKER=ON"},
    {.name = "mlbench-worker-tensorflow",
     .build = "-DMLBENCH_TENSORFLOW=ON",
     .framework = "tensorflow",
     .about = "TensorFlow's kernels and gradients, for CPUs",
     .modules = "libtensorflow"},
};

struct BackendRow {
  std::string_view name;
  BackendFacts facts;
};
constexpr BackendRow kBackends[] = {{"mpi", {.needs_mpirun = true}}};

}  // namespace

std::span<const ProgramRow> programs() { return kPrograms; }

const ProgramRow& program_with(std::string_view framework) {
  const auto* const own = std::ranges::find(kPrograms, framework, &ProgramRow::framework);
  return own == std::end(kPrograms) ? kPrograms[0] : *own;
}

std::filesystem::path path_of(const ProgramRow& program, const std::filesystem::path& worker) {
  return &program == kPrograms ? worker : worker.parent_path() / program.name;
}

BackendFacts backend_facts(std::string_view backend) {
  const auto* const row = std::ranges::find(kBackends, backend, &BackendRow::name);
  return row == std::end(kBackends) ? BackendFacts() : row->facts;
}

std::string advice_for(const ProgramRow& program) {
  const std::string get = fmt::format("build it ({}), install the package {}, or ", program.build, program.name);
  return get + (&program == kPrograms ? fmt::format("set {}", variables::kWorker)
                                      : fmt::format("put it beside {}", kPrograms[0].name));
}

}  // namespace mlbench::catalog
