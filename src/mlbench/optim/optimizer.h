#pragma once

// An optimizer composes three objects: an update rule (what to do with an aggregated gradient), a coder (what goes over
// the wire, compress/) and an exchange pattern (who talks to whom, and when). All act on the flat buffers. Between
// exchange and rule is what a task may ask of any optimizer: loss scaling, clipping, averaged weights.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

// The local arithmetic: computes new parameters from parameters, aggregated gradient and learning rate.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // The gradient is `gradient_scale` times the values in `tensors.gradients`.
  virtual void update(FlatTensors& tensors, double lr, double gradient_scale) = 0;
  // Whether a part of the buffers may be updated where other ranks update the others: each weight's update depends on
  // that weight's gradient and state alone, or the rule exchanges what else it takes.
  virtual bool updates_parts() const { return false; }
  // Whether update() is a collective of all ranks, and the bytes that this one then hands to the transport.
  virtual bool collective() const { return false; }
  virtual uint64_t bytes_per_step() const { return 0; }
  // Whether the weights that are evaluated and stored are others than those that gradients are computed at.
  virtual bool swaps() const { return false; }
  // Puts the weights that are evaluated and stored into the parameters, and keeps those that are trained; the next call
  // puts these back. State is exported and imported between two calls.
  virtual void swap(FlatTensors& /*tensors*/) {}
  virtual void export_state(NamedState& state) const = 0;  // keys "optimizer/..."
  virtual void import_state(const NamedState& state) = 0;
};

// What happens in a step, where g is the gradient that the exchange left, S the loss scale, and d the step's divisor of
// the sum:
//   g <- g / (S d), and with reduce "mean" / k, or / denominator
//   if g is not finite, and the loss is scaled: the step is skipped
//   n = norm(g);  g <- g * min(1, clip_norm / (n + 1e-6))      (Pascanu et al. 2013, with PyTorch's epsilon)
struct StepOptions {
  double clip_norm = 0;  // the most of the whole gradient's Euclidean norm; 0: no clipping
  // 1 for reduce "sum": the loop's shares sum to the gradient of the mean loss, or to whatever the batch plan's divisor
  // makes of them (4a: the sum of the ranks' means). k for "mean": the gradient is the mean of the ranks' shares.
  int64_t reduce_divisor = 1;
  double denominator = 1;  // of the sum: another than k (MLBench's avg_custom)
  LossScaleOptions loss_scale = {};
  int64_t averaging_patience = 0;  // of the trigger of averaged weights (weight_average.h); 0: never
};

struct StepOutcome {
  bool skipped = false;  // parameters, the rule's state and averages did not change
  // The gradient's norm before clipping, without loss scale and divisor; empty where nobody asked for it. The norm is
  // not finite only where the gradient was not.
  std::optional<double> gradient_norm;
  bool clipped = false;
};

// The calls of a step are, in this order: begin, ready, finish (or abandon), step, after_update; settle behind some
// steps. All but step are the exchange's.
class Optimizer {
 public:
  // Throws UserError for loss scaling with an exchange or coder whose result need not show every rank's overflow; and
  // where ranks have a part of the gradient each (Exchange::own_part), for whatever needs the whole: loss scaling,
  // clipping, averages, and rules that cannot update a part.
  // Options other than the defaults need the layout. `memory` is where the tensors are, as rule and exchange were told;
  // null: in the host's memory.
  Optimizer(std::unique_ptr<UpdateRule> rule, std::unique_ptr<compress::GradientCoder> coder,
            std::unique_ptr<Exchange> exchange, const FlatLayout& layout = {}, const StepOptions& options = {},
            SeparateMemory* memory = nullptr);
  // That of the exchange, with the bytes of the rule.
  Promise promise() const;

  // The factor for the loss of the next step, on top of the loss's share: a power of two, or 1 without scaling. All
  // ranks have the same factor. Where the sum over ranks is exact (Promise), an element that is infinite or NaN on one
  // rank is infinite or NaN in the sum on all ranks, in float32, float16 and bfloat16 alike.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }
  // The steps since the beginning of the run that changed nothing; schedules do not count them.
  int64_t skipped_steps() const { return scaler_ ? scaler_->skipped_steps() : 0; }
  bool scales_loss() const { return scaler_.has_value(); }

  // With reduce "mean", too, a rank's share is its weight in the mean.
  void begin(compress::StepContext step, FlatTensors& tensors) {
    step.share /= static_cast<double>(reduce_divisor_);
    exchange_->begin(step, tensors);
  }
  bool listens() const { return exchange_->listens(); }
  void ready(int64_t first, int64_t count) { exchange_->ready(first, count); }
  uint64_t finish() { return exchange_->finish(); }
  void abandon() noexcept { exchange_->abandon(); }
  // Applies the rule to a gradient of loss_scale() * sum_divisor times the loss.
  StepOutcome step(FlatTensors& tensors, double lr, double sum_divisor = 1);
  // Returns the exchange's bytes, and those of the rule in step().
  uint64_t after_update(FlatTensors& tensors) {
    return exchange_->after_update(tensors) + std::exchange(bytes_of_rule_, 0);
  }

  // Must be called before ranks do something together that is no step.
  uint64_t settle(FlatTensors& tensors) { return exchange_->settle(tensors); }
  std::vector<int64_t> staleness() const { return exchange_->staleness(); }

  // Tells the validation loss of an evaluation at the task's cadence, for which averaging waits.
  void on_evaluation(double loss) {
    if (average_) average_->on_evaluation(loss);
  }
  // Whether weights are averaged from now on.
  bool averages() const { return average_ && average_->begun(); }
  // Puts the averaged weights into the parameters, whose values are kept; the next call puts those back
  // (weight_average.h). Evaluating, hashing and storing happens between two calls. Without an average, whether of the
  // step or of the rule, nothing happens.
  void swap_average(FlatTensors& tensors) {
    if (average_) average_->swap(tensors.parameters);
    rule_->swap(tensors);
  }

  // What the exchange reports, with `replicated: false` where the optimizer is not replicated.
  Json effective() const;
  // The state that all ranks hold alike: the rule's, where the optimizer is replicated and no rank has a part of it.
  // With averaged weights, export and import must happen while these are the parameters: between two calls of
  // swap_average().
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);
  // The state that this rank holds for itself: the coder's and the exchange's, and the rule's where the optimizer is
  // not replicated.
  void export_own_state(NamedState& state) const;
  void import_own_state(const NamedState& state);

 private:
  // Whether all ranks have the same state of the rule.
  bool rule_is_replicated() const { return promise().replicated && !part_; }
  void export_rule_state(NamedState& state) const;
  void import_rule_state(const NamedState& state);

  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<compress::GradientCoder> coder_;  // exchange_ refers to it
  std::unique_ptr<Exchange> exchange_;
  const std::optional<FlatPart> part_;
  const double clip_norm_;
  const int64_t reduce_divisor_;
  const double denominator_;
  std::optional<GradientNorm> norm_;
  std::optional<LossScaler> scaler_;
  std::optional<WeightAverage> average_;
  uint64_t bytes_of_rule_ = 0;  // since the last after_update()
};

}  // namespace mlbench::optim
