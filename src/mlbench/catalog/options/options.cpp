#include "mlbench/catalog/options/options.h"

#include <algorithm>
#include <vector>

#include "mlbench/catalog/options/executors.h"

namespace mlbench::catalog {
namespace {

const ExecutorRow* row_of(std::string_view executor) {
  const auto named = [&](const ExecutorRow& row) { return row.name == executor; };
  const auto found = std::ranges::find_if(executors(), named);
  return found == executors().end() ? nullptr : &*found;
}

std::vector<spec::RunOption> all_options() {
  const auto own = spec::run_options();
  std::vector<spec::RunOption> rows(own.begin(), own.end());
  const auto add_those_of = [&](const ExecutorRow& executor) {
    for (const spec::RunOption& option : executor.options) {
      if (std::ranges::find(rows, option.name, &spec::RunOption::name) != rows.end()) continue;
      rows.push_back(option);
      rows.back().group = "Where ranks run";
    }
  };
  // In help, what chooses hosts stands first.
  for (const bool here : {false, true}) {
    for (const ExecutorRow& executor : executors()) {
      if (executor.facts.on_this_host == here) add_those_of(executor);
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
  const ExecutorRow* row = row_of(executor);
  return row == nullptr ? exec::ExecutorFacts() : row->facts;
}

spec::RunOptionRows options_of(std::string_view executor) {
  const ExecutorRow* row = row_of(executor);
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
