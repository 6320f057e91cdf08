#include "mlbench/models/linear_regression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

ModelDescription describe_linear_regression(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const double l1 = options.number("l1", 0, {0, 1e6});
  const double l2 = options.number("l2", 0, {0, 1e6});
  options.finish();
  if (task.data.sample_shape.size() != 1) {
    throw UserError(fmt::format("model '{}' takes samples of one dimension; data '{}' has shape {{{}}}",
                                task.model.name, task.data.name, fmt::join(task.data.sample_shape, ", ")));
  }
  ModelDescription model = Chain(task.data.sample_shape).linear_without_bias("linear", 1).finish();
  model.l1 = l1;
  model.l2 = l2;
  return model;
}

}  // namespace mlbench::models
