#pragma once

// Learning-rate schedules: scaling with the number of workers, warm-up, decay. Pure functions of the step and of the
// evaluations seen so far; the same on every rank. With lr the task's rate, L = lr scaled for k workers, W the length
// of the warm-up in steps (rounded) and s the step from 0:
//   warm-up       lr + (L - lr) * s / W for s < W, then L. This rate is then multiplied by the decay:
//   constant      1
//   multistep     factor ^ (milestones reached); a milestone at epoch e is reached at step round(e * steps per epoch)
//   plateau       max(floor, factor ^ n): n grows by one when `patience` evaluations in a row had no loss at least
//                 `threshold` below the best one. Evaluations during the warm-up don't count.
//   inverse_sqrt  1 / sqrt(t), t = s + 1

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
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // Learning rate of a global step (from 0).
  virtual double lr(int64_t step) const = 0;
  // Tells the validation loss of an evaluation that ended after `step` steps; only plateau decay listens.
  virtual void on_evaluation(int64_t step, double validation_loss) = 0;
  virtual void export_state(NamedState& state) const = 0;  // keys "schedule/..."
  virtual void import_state(const NamedState& state) = 0;
};

// UserError naming the valid choices for an unknown scaling, warm-up or decay.
std::unique_ptr<Schedule> make_schedule(const spec::ScheduleSpec& spec, const ScheduleContext& context);

}  // namespace mlbench::schedule
