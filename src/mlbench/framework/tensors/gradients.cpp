#include "mlbench/framework/tensors/gradients.h"

#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

size_t GradientBuffer::add_slot(Slot slot) {
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

void GradientBuffer::begin(bool accumulate, bool last) {
  last_ = last;
  for (Slot& slot : slots_) {
    slot.add = accumulate;
    slot.missing = slot.uses;
  }
}

ParameterTable::ParameterTable(const models::ModelDescription& model, const models::FlatLayout& layout,
                               at::Tensor parameters, at::Tensor gradients, at::Tensor buffers, GradientBuffer& slots)
    : model_(model.name),
      ranges_(layout.ranges),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)),
      buffers_(std::move(buffers)),
      slots_(slots) {}

Parameter ParameterTable::get(const std::string& name) {
  if (const auto known = known_.find(name); known != known_.end()) {
    slots_.share(known->second.slot);
    return known->second;
  }
  for (const models::FlatRange& range : ranges_) {
    if (range.name != name) continue;
    const auto view = [&range](const at::Tensor& flat) {
      return flat.narrow(0, range.offset, range.count).view(range.shape);
    };
    if (!range.trainable) return {view(buffers_), 0};
    const Parameter made{view(parameters_), slots_.add_slot({view(gradients_), range.offset, range.count})};
    known_.emplace(name, made);
    return made;
  }
  MLBENCH_CHECK(false, "model '" + model_ + "' has no parameter " + name);
  return {};
}

}  // namespace mlbench::framework
