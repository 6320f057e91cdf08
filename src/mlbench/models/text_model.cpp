#include "mlbench/models/text_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/errors.h"

namespace mlbench::models {

void require_text(const spec::TaskSpec& task) {
  if (!task.data.sample_shape.empty() || task.data.classes < 5) {
    throw UserError(
        fmt::format("model '{}' takes text: no data.sample_shape, and data.classes, the size of the vocabulary, of at "
                    "least 5; data '{}' has shape {{{}}} and {} classes",
                    task.model.name, task.data.name, fmt::join(task.data.sample_shape, ", "), task.data.classes));
  }
}

std::string read_size(OptionReader& options, const spec::TaskSpec& task) {
  const std::string size = options.text("size", "full");
  if (size != "full" && size != "small" && size != "tiny") {
    throw UserError(fmt::format("model '{}' has no size '{}'; valid: full, small, tiny", task.model.name, size));
  }
  return size;
}

}  // namespace mlbench::models
