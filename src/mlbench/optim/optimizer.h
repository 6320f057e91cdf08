#pragma once

// An optimizer composes three objects: an update rule (what to do with an aggregated gradient), a coder (what goes over
// the wire, compress/) and an exchange pattern (who talks to whom, when). All act on the flat buffers.

#include <cstdint>
#include <memory>

#include "mlbench/base/json.h"
#include "mlbench/base/named_state.h"
#include "mlbench/compress/coder.h"
#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/flat_tensors.h"

namespace mlbench::optim {

// Local arithmetic: new parameters from parameters, aggregated gradient and learning rate.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual void update(FlatTensors& tensors, double lr) = 0;
  virtual void export_state(NamedState& state) const = 0;  // keys "optimizer/..."
  virtual void import_state(const NamedState& state) = 0;
};

// Calls of a step, in this order: begin, ready, finish (or abandon), step, after_update. Those but step are the
// exchange's.
class Optimizer {
 public:
  Optimizer(std::unique_ptr<UpdateRule> rule, std::unique_ptr<compress::GradientCoder> coder,
            std::unique_ptr<Exchange> exchange);
  Promise promise() const { return exchange_->promise(); }

  void begin(int64_t step, FlatTensors& tensors) { exchange_->begin(step, tensors); }
  bool listens() const { return exchange_->listens(); }
  void ready(int64_t first, int64_t count) { exchange_->ready(first, count); }
  uint64_t finish() { return exchange_->finish(); }
  void abandon() noexcept { exchange_->abandon(); }
  // The rule.
  void step(FlatTensors& tensors, double lr) { rule_->update(tensors, lr); }
  uint64_t after_update(FlatTensors& tensors) { return exchange_->after_update(tensors); }

  // That of the exchange; and `replicated: false` where it is not.
  Json effective() const;
  // What all ranks hold alike: the rule's, of a replicated optimizer.
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);
  // What this rank holds for itself: the coder's and the exchange's, and the rule's where it is not replicated.
  void export_own_state(NamedState& state) const;
  void import_own_state(const NamedState& state);

 private:
  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<compress::GradientCoder> coder_;  // referenced by exchange_
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace mlbench::optim
