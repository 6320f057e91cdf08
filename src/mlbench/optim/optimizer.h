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

class Optimizer {
 public:
  Optimizer(std::unique_ptr<UpdateRule> rule, std::unique_ptr<compress::GradientCoder> coder,
            std::unique_ptr<Exchange> exchange);
  uint64_t aggregate(FlatTensors& tensors) { return exchange_->aggregate(tensors); }
  void step(FlatTensors& tensors, double lr) { rule_->update(tensors, lr); }
  Json effective() const { return exchange_->effective(); }
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);

 private:
  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<compress::GradientCoder> coder_;  // referenced by exchange_
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace mlbench::optim
