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

std::string read_size(OptionReader& options) { return options.choice("size", "full", {"full", "small", "tiny"}); }

}  // namespace mlbench::models
