#pragma once

// An optimizer composes three objects: an update rule (what to do with an aggregated gradient), a coder (what goes over
// the wire, compress/) and an exchange pattern (who talks to whom, when). All act on the flat buffers. Between exchange
// and rule stands what a task asks of any of them: loss scaling, clipping, averaged weights.

#include <cstdint>
#include <memory>
#include <optional>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/json.h"
#include "mlbench/base/named_state.h"
#include "mlbench/compress/coder.h"
#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/flat_tensors.h"
#include "mlbench/optim/gradient_norm.h"
#include "mlbench/optim/loss_scaler.h"
#include "mlbench/optim/weight_average.h"

namespace mlbench::optim {

// Local arithmetic: new parameters from parameters, aggregated gradient and learning rate.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // The gradient is `gradient_scale` times what stands in the tensors.
  virtual void update(FlatTensors& tensors, double lr, double gradient_scale) = 0;
  virtual void export_state(NamedState& state) const = 0;  // keys "optimizer/..."
  virtual void import_state(const NamedState& state) = 0;
};

// Of a step, with g the gradient that the exchange left, S the loss scale, d the step's divisor of the sum:
//   g <- g / (S d), and with reduce "mean" / k
//   not finite, with loss scaling: the step is skipped
//   n = norm(g);  g <- g * min(1, clip_norm / (n + 1e-6))      (Pascanu et al. 2013, with PyTorch's epsilon)
struct StepOptions {
  double clip_norm = 0;  // of the whole gradient, in the Euclidean norm; 0: it is not clipped
  // 1: "sum". The loop's shares sum to the gradient of the mean loss, or to what else the divisor of the batch plan
  // makes of them (4a: the sum of the ranks' means). k: "mean", what the ranks' shares are on average.
  int64_t reduce_divisor = 1;
  LossScaleOptions loss_scale = {};
  int64_t averaging_patience = 0;  // of the averaged weights' trigger (weight_average.h); 0: never
};

struct StepOutcome {
  bool skipped = false;  // parameters, the rule's state and averages are as before
  // Of the gradient before it was clipped, without loss scale and divisor; empty where nobody asked for it. Not finite
  // only where the gradient was not.
  std::optional<double> gradient_norm;
  bool clipped = false;
};

// Calls of a step, in this order: begin, ready, finish (or abandon), step, after_update. Those but step are the
// exchange's.
class Optimizer {
 public:
  // UserError: loss scaling of an exchange or coder whose result need not tell of every rank's overflow. Options other
  // than the usual ones need the layout. `memory`: where the tensors are, as rule and exchange were told; null: the
  // host's.
  Optimizer(std::unique_ptr<UpdateRule> rule, std::unique_ptr<compress::GradientCoder> coder,
            std::unique_ptr<Exchange> exchange, const FlatLayout& layout = {}, const StepOptions& options = {},
            SeparateMemory* memory = nullptr);
  Promise promise() const { return exchange_->promise(); }

  // What the loss of the next step is to be multiplied by, on top of its share: a power of two, 1 without scaling. All
  // ranks have the same: where the sum over ranks is exact (Promise), an element that is infinite or NaN on one of them
  // is infinite or NaN in the sum on all, in float32, float16 and bfloat16 alike.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }
  // Steps since the run's beginning that changed nothing: schedules don't count them.
  int64_t skipped_steps() const { return scaler_ ? scaler_->skipped_steps() : 0; }
  bool scales_loss() const { return scaler_.has_value(); }

  void begin(int64_t step, FlatTensors& tensors) { exchange_->begin(step, tensors); }
  bool listens() const { return exchange_->listens(); }
  void ready(int64_t first, int64_t count) { exchange_->ready(first, count); }
  uint64_t finish() { return exchange_->finish(); }
  void abandon() noexcept { exchange_->abandon(); }
  // The rule, on a gradient of loss_scale() * sum_divisor times the loss.
  StepOutcome step(FlatTensors& tensors, double lr, double sum_divisor = 1);
  uint64_t after_update(FlatTensors& tensors) { return exchange_->after_update(tensors); }

  // The validation loss of an evaluation at the task's cadence: what averaging waits for.
  void on_evaluation(double loss) {
    if (average_) average_->on_evaluation(loss);
  }
  // Whether weights are averaged from now on.
  bool averages() const { return average_ && average_->begun(); }
  // Puts the averaged weights into the parameters, which are kept, or those back (weight_average.h). What is evaluated,
  // hashed and stored stands between two calls; without an average nothing happens.
  void swap_average(FlatTensors& tensors) {
    if (average_) average_->swap(tensors.parameters);
  }

  // That of the exchange; and `replicated: false` where it is not.
  Json effective() const;
  // What all ranks hold alike: the rule's, of a replicated optimizer. With averaged weights, export and import happen
  // while these are the parameters: swap_average before, and behind.
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);
  // What this rank holds for itself: the coder's and the exchange's, and the rule's where it is not replicated.
  void export_own_state(NamedState& state) const;
  void import_own_state(const NamedState& state);

 private:
  void export_rule_state(NamedState& state) const;
  void import_rule_state(const NamedState& state);

  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<compress::GradientCoder> coder_;  // referenced by exchange_
  std::unique_ptr<Exchange> exchange_;
  const double clip_norm_;
  const int64_t reduce_divisor_;
  std::optional<GradientNorm> norm_;
  std::optional<LossScaler> scaler_;
  std::optional<WeightAverage> average_;
};

}  // namespace mlbench::optim
