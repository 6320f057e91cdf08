#include "mlbench/catalog/options/options.h"

#include <algorithm>
#include <vector>

#include "mlbench/exec/kubernetes/options.h"
#include "mlbench/exec/local/options.h"
#include "mlbench/exec/mpirun/options.h"
#include "mlbench/exec/slurm/options.h"

namespace mlbench::catalog {
namespace {

struct ExecutorOptions {
  std::string_view name;
  spec::RunOptionRows options;
};
constexpr ExecutorOptions kExecutors[] = {
    {"mpirun", exec::mpirun::kOptions},
    {"slurm", exec::slurm::kOptions},
    {"kubernetes", exec::kubernetes::kOptions},
    {"local", exec::local::kOptions},
};

std::vector<spec::RunOption> all_options() {
  const auto own = spec::run_options();
  std::vector<spec::RunOption> rows(own.begin(), own.end());
  for (const ExecutorOptions& executor : kExecutors) {
    for (const spec::RunOption& option : executor.options) {
      if (std::ranges::find(rows, option.name, &spec::RunOption::name) != rows.end()) continue;
      rows.push_back(option);
      rows.back().group = "Where ranks run";
    }
  }
  return rows;
}

}  // namespace

spec::RunOptionRows run_options() {
  static const std::vector<spec::RunOption> kRows = all_options();
  return kRows;
}

spec::RunOptionRows options_of(std::string_view executor) {
  const auto* found = std::ranges::find(kExecutors, executor, &ExecutorOptions::name);
  return found == std::end(kExecutors) ? spec::RunOptionRows() : found->options;
}

bool takes(std::string_view executor, std::string_view option) {
  const auto rows = options_of(executor);
  return std::ranges::find(rows, option, &spec::RunOption::name) != rows.end();
}

std::string label_of_option(std::string_view name) {
  const auto rows = run_options();
  const auto row = std::ranges::find(rows, name, &spec::RunOption::name);
  return row == rows.end() ? std::string(name) : spec::label_of(*row);
}

}  // namespace mlbench::catalog
