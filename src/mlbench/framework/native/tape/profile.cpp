#include "mlbench/framework/native/tape/profile.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace mlbench::framework::native_framework {

double fastest_call_s(const std::function<void()>& call) {
  constexpr int kCalls = 20;
  double fastest_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCalls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    fastest_s = std::min(fastest_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return fastest_s;
}

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
