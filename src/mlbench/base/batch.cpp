#include "mlbench/base/batch.h"

#include <algorithm>

#include "mlbench/base/errors.h"

namespace mlbench {

const BatchTensor* BatchView::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &BatchTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

const BatchTensor& BatchView::at(std::string_view name) const {
  const BatchTensor* tensor = find(name);
  MLBENCH_CHECK(tensor != nullptr, "the batch has no tensor '" + std::string(name) + "'");
  return *tensor;
}

}  // namespace mlbench
