#include "mlbench/spec/declaration.h"

#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::spec {

void declare(RunSpec& spec, FrozenTask task, std::vector<Override> overrides, std::string data) {
  MLBENCH_CHECK(command_of(spec) != nullptr, "only a command declares what it trains");
  spec.task = std::move(task);
  spec.overrides = std::move(overrides);
  spec.data_name = std::move(data);
}

// The canonical form of an undeclared command's task is the command itself.
bool declares_task(const RunSpec& spec) {
  return command_of(spec) != nullptr && spec.task.canonical.is_object() && !spec.task.canonical.contains("command");
}

}  // namespace mlbench::spec
