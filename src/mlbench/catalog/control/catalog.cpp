#include "mlbench/catalog/control/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/catalog/options/options.h"

namespace mlbench::catalog {
namespace {

void check_options(const ExecutorRow& row, const Json& engine) {
  for (const auto& [option, value] : engine.items()) {
    if (takes(row.name, option)) continue;
    std::vector<std::string> others;
    for (const ExecutorRow& other : executors()) {
      if (takes(other.name, option)) others.emplace_back(other.name);
    }
    throw UserError(
        fmt::format("{}: the executor '{}' {}; executors that take it: {}", label_of_option(option), row.name,
                    !takes(row.name, "ranks_per_host") ? "starts ranks on this host alone" : "does not take it",
                    others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", "))));
  }
}

}  // namespace

std::unique_ptr<exec::Executor> make_executor(const std::string& name, const Json& engine) {
  const ExecutorRow& row = row_named(executors(), "executor", name);
  check_options(row, engine);
  return row.make(engine);
}

}  // namespace mlbench::catalog
