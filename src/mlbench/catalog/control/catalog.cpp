#include "mlbench/catalog/control/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/errors.h"
#include "mlbench/exec/local/local.h"

namespace mlbench::catalog {

const std::vector<ExecutorRow>& executors() {
  static const std::vector<ExecutorRow> rows = {
      {"local", exec::local::available, exec::local::make},
  };
  return rows;
}

std::unique_ptr<exec::Executor> make_executor(const std::string& name) {
  std::vector<std::string> names;
  for (const ExecutorRow& row : executors()) {
    if (row.name == name) return row.make();
    names.push_back(row.name);
  }
  throw UserError(fmt::format("unknown executor '{}': valid are {}", name, fmt::join(names, ", ")));
}

}  // namespace mlbench::catalog
