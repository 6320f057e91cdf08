#include "mlbench/optim/exchange/outer_optimizer.h"

#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

constexpr Range kOuterRates{0, 1e6};
const std::string kAnchor = "exchange/anchor";
const std::string kOuterMomentum = "exchange/outer_momentum";

}  // namespace

OuterOptions read_outer_options(OptionReader& options) {
  OuterOptions outer;
  outer.lr = options.number("outer_lr", outer.lr, kOuterRates);
  outer.momentum = options.number("outer_momentum", outer.momentum, kOuterRates);
  outer.nesterov = options.flag("outer_nesterov", outer.nesterov);
  return outer;
}

OuterOptimizer::OuterOptimizer(const OuterOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options), layout_(std::move(layout)), memory_(memory) {
  if (options.nesterov && options.momentum == 0) {
    throw UserError("outer_nesterov needs an outer_momentum above 0; given outer_momentum 0");
  }
}

void OuterOptimizer::begin(const at::Tensor& parameters) {
  if (anchor_.defined()) return;
  anchor_ = parameters.clone();
  if (options_.momentum != 0) momentum_ = at::zeros_like(anchor_);
}

void OuterOptimizer::step(const FlatPart& part, at::Tensor difference) {
  if (momentum_.defined()) {
    at::Tensor momentum = momentum_.narrow(0, part.offset, part.count);
    momentum.mul_(options_.momentum).add_(difference);
    difference = options_.nesterov ? difference.add_(momentum, options_.momentum) : momentum;
  }
  anchor_.narrow(0, part.offset, part.count).sub_(difference, options_.lr);
}

void OuterOptimizer::export_state(NamedState& state) const {
  if (anchor_.defined()) export_flat(kAnchor, layout_, anchor_, memory_, state);
  if (momentum_.defined()) export_flat(kOuterMomentum, layout_, momentum_, memory_, state);
}

void OuterOptimizer::import_state(const NamedState& state) {
  anchor_ = at::zeros({layout_.parameter_elements}, options_beside(memory_));
  import_flat(kAnchor, layout_, state, memory_, anchor_);
  if (options_.momentum == 0) return;
  momentum_ = at::zeros_like(anchor_);
  import_flat(kOuterMomentum, layout_, state, memory_, momentum_);
}

}  // namespace mlbench::optim
