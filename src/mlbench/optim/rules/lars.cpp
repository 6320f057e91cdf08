#include "mlbench/optim/rules/lars.h"

#include <utility>

#include "mlbench/optim/rules/arithmetic.h"
#include "mlbench/optim/rules/flat_state.h"
#include "mlbench/optim/rules/range_norms.h"

namespace mlbench::optim {

namespace {

const std::string kLarsSteps = "optimizer/momentum_steps";
const std::string kLarsMomentum = "optimizer/momentum";

}  // namespace

LarsRule::LarsRule(const LarsOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options),
      layout_(std::move(layout)),
      memory_(memory),
      momentum_(at::zeros({layout_.parameter_elements}, options_beside(memory))) {}

void LarsRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  const std::vector<double> weights = range_norms(tensors.parameters, layout_);
  const std::vector<double> gradients = range_norms(tensors.gradients, layout_);
  for (size_t i = 0; i < layout_.ranges.size(); ++i) {
    const FlatRange& range = layout_.ranges[i];
    if (!range.trainable) continue;
    double trust = 1, weight_decay = 0;
    if (scales_by_norm(range)) {
      weight_decay = options_.weight_decay;
      const double gradient = gradients[i] * gradient_scale;
      if (weights[i] > 0 && gradient > 0) {
        trust = options_.trust_coefficient * weights[i] / (gradient + weight_decay * weights[i]);
      }
    }
    FlatTensors part{tensors.parameters.narrow(0, range.offset, range.count),
                     tensors.gradients.narrow(0, range.offset, range.count)};
    at::Tensor momentum = momentum_.narrow(0, range.offset, range.count);
    arithmetic_for(memory_).sgd(part, momentum,
                                {.lr = 1,
                                 .momentum = static_cast<float>(options_.momentum),
                                 .weight_decay = static_cast<float>(lr * trust * weight_decay),
                                 .first = steps_ == 0,
                                 .gradient_scale = static_cast<float>(lr * trust * gradient_scale)});
  }
  ++steps_;
}

void LarsRule::export_state(NamedState& state) const {
  state.scalars[kLarsSteps] = steps_;
  export_flat(kLarsMomentum, layout_, momentum_, memory_, state);
}

void LarsRule::import_state(const NamedState& state) {
  steps_ = state.integer(kLarsSteps);
  import_flat(kLarsMomentum, layout_, state, memory_, momentum_);
}

}  // namespace mlbench::optim
