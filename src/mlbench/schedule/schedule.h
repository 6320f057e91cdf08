#pragma once

// Learning-rate schedules: scaling with the number of workers, warm-up, decay. Pure functions of the step and of the
// evaluations seen so far; the same on every rank. With lr the task's rate, L = lr scaled for k workers, W the length
// of the warm-up in steps (rounded) and s the step from 0:
//   warm-up       A + (L - A) * s / W for s < W, then L, where A is lr, or 0 with warmup_from "zero";
//                 "exponential": L * warmup_factor ^ ((W - s) / W)
// This rate is then multiplied by the decay:
//   constant      1
//   multistep     factor ^ (milestones reached); a milestone at epoch e is reached at step round(e * steps per epoch)
//   fractions     the same with milestones at round(fraction * all steps)
//   plateau       max(floor, factor ^ n): n grows by one when `patience` evaluations in a row had no finite loss
//                 at least `threshold` below the best one. Evaluations during the warm-up don't count.
//   inverse_sqrt  1 / sqrt(t), t = s + 1
//   inverse_sqrt_after_warmup  1 for s < W, then sqrt(W / s) (Vaswani et al. 2017, section 5.3)
// and, with by_length, by the relative length of the step's sequences (Merity et al. 2018, section 5).
//
// Steps are those that changed the weights: one that is skipped (optim/loss_scaler.h) is not counted.

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/spec/task.h"

namespace mlbench::schedule {

struct ScheduleContext {
  double base_lr = 0;
  int64_t workers = 1;
  int64_t steps_per_epoch = 1;
  // Of the task's epochs, whatever limits a run has; decay "fractions" needs it.
  int64_t total_steps = 0;
};

// What the batch plan tells of a step.
struct StepFacts {
  double relative_length = 1;  // of its sequences, over the usual length (bptt)
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // Learning rate of a global step (from 0).
  double lr(int64_t step, const StepFacts& facts = {}) const {
    return by_length_ ? rate(step) * facts.relative_length : rate(step);
  }
  // Tells the validation loss of an evaluation that ended after `step` steps; only plateau decay listens.
  virtual void on_evaluation(int64_t step, double validation_loss) = 0;
  virtual void export_state(NamedState& state) const = 0;  // keys "schedule/..."
  virtual void import_state(const NamedState& state) = 0;

 protected:
  explicit Schedule(bool by_length) : by_length_(by_length) {}
  virtual double rate(int64_t step) const = 0;

 private:
  const bool by_length_;
};

// UserError naming the valid choices for an unknown scaling, warm-up or decay.
std::unique_ptr<Schedule> make_schedule(const spec::ScheduleSpec& spec, const ScheduleContext& context);

}  // namespace mlbench::schedule
