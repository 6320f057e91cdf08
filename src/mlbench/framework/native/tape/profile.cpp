#include "mlbench/framework/native/tape/profile.h"

#include <utility>

namespace mlbench::framework::native_framework {

void Profile::count(bool on) {
  on_ = on;
  if (!on) return;
  costs_.clear();
  for (const auto& operation : tape_.operations) costs_[operation.get()] = {};
}

std::vector<OperationCost> Profile::costs() const {
  std::vector<OperationCost> costs;
  for (const auto& operation : tape_.operations) {
    const auto found = costs_.find(operation.get());
    OperationCost cost = found != costs_.end() ? found->second : OperationCost();
    cost.name = operation->name;
    cost.implementation = operation->explanation;
    cost.forward_flops = operation->flops;
    cost.backward_flops = operation->flops * static_cast<double>(1 + operation->writes_gradient_of.size());
    for (const Value* value : operation->inputs) cost.bytes += value->data.bytes_per_sample;
    if (operation->output != nullptr) cost.bytes += operation->output->data.bytes_per_sample;
    const auto [forward, backward] = operation->measure_floor();
    cost.forward_floor_s = forward;
    cost.backward_floor_s = backward;
    costs.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace mlbench::framework::native_framework
