#include "mlbench/catalog/options/options.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "mlbench/exec/kubernetes/options.h"
#include "mlbench/exec/local/options.h"
#include "mlbench/exec/mpirun/options.h"
#include "mlbench/exec/slurm/options.h"

namespace mlbench::catalog {
namespace {

struct Row {
  std::string_view name;
  exec::ExecutorFacts facts;
  spec::RunOptionRows options;
};
constexpr Row kExecutors[] = {
    {"mpirun", exec::mpirun::kFacts, exec::mpirun::kOptions},
    {"slurm", exec::slurm::kFacts, exec::slurm::kOptions},
    {"kubernetes", exec::kubernetes::kFacts, exec::kubernetes::kOptions},
    {"local", exec::local::kFacts, exec::local::kOptions},
};

const Row* row_of(std::string_view executor) {
  const auto* found = std::ranges::find(kExecutors, executor, &Row::name);
  return found == std::end(kExecutors) ? nullptr : found;
}

std::vector<spec::RunOption> all_options() {
  const auto own = spec::run_options();
  std::vector<spec::RunOption> rows(own.begin(), own.end());
  for (const Row& executor : kExecutors) {
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

exec::ExecutorFacts facts_of(std::string_view executor) {
  const Row* row = row_of(executor);
  return row == nullptr ? exec::ExecutorFacts() : row->facts;
}

spec::RunOptionRows options_of(std::string_view executor) {
  const Row* row = row_of(executor);
  return row == nullptr ? spec::RunOptionRows() : row->options;
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
