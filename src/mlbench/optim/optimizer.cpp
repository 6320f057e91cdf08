#include "mlbench/optim/optimizer.h"

#include <utility>

namespace mlbench::optim {

Optimizer::Optimizer(std::unique_ptr<UpdateRule> rule, std::unique_ptr<compress::GradientCoder> coder,
                     std::unique_ptr<Exchange> exchange)
    : rule_(std::move(rule)), coder_(std::move(coder)), exchange_(std::move(exchange)) {}

Json Optimizer::effective() const {
  Json effective = exchange_->effective();
  if (!promise().replicated) effective["replicated"] = false;
  return effective;
}

void Optimizer::export_state(NamedState& state) const {
  if (promise().replicated) rule_->export_state(state);
}

void Optimizer::import_state(const NamedState& state) {
  if (promise().replicated) rule_->import_state(state);
}

void Optimizer::export_own_state(NamedState& state) const {
  if (!promise().replicated) rule_->export_state(state);
  coder_->export_state(state);
  exchange_->export_state(state);
}

void Optimizer::import_own_state(const NamedState& state) {
  if (!promise().replicated) rule_->import_state(state);
  coder_->import_state(state);
  exchange_->import_state(state);
}

}  // namespace mlbench::optim
