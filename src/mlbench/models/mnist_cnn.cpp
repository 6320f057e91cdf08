#include "mlbench/models/mnist_cnn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

ModelDescription describe_mnist_cnn(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const double dropout = options.number("dropout", 0.4, {0, 1});
  options.finish();
  if (task.data.sample_shape.size() != 3 || task.data.classes < 2) {
    throw UserError(
        fmt::format("model '{}' takes images {{channels, height, width}} of at least 2 classes; data '{}' has "
                    "shape {{{}}} and {} classes",
                    task.model.name, task.data.name, fmt::join(task.data.sample_shape, ", "), task.data.classes));
  }
  return Chain(task.data.sample_shape)
      .conv2d_same("conv1", 32, 5)
      .activation("relu")
      .pool2d("max_pool2d", 2)
      .conv2d_same("conv2", 64, 5)
      .activation("relu")
      .pool2d("max_pool2d", 2)
      .flatten()
      .linear("fc1", 1024)
      .activation("relu")
      .dropout(dropout)
      .linear("fc2", task.data.classes)
      .finish();
}

}  // namespace mlbench::models
