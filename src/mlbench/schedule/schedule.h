#pragma once

// Learning-rate schedules: scaling with the number of workers, warm-up, decay. Pure functions of the step and of the
// evaluations seen so far; the same on every rank.

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/spec/task.h"

namespace mlbench::schedule {

struct ScheduleContext {
  double base_lr = 0;
  int64_t workers = 1;
  int64_t batch_size = 1;        // per worker
  int64_t steps_per_epoch = 1;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // Learning rate of a global step (from 0).
  virtual double lr(int64_t step) const = 0;
  // Tells the validation loss of an evaluation that ended after `step` steps; only plateau decay listens.
  virtual void on_evaluation(int64_t step, double validation_loss) = 0;
  virtual void export_state(NamedState& state) const = 0;   // keys "schedule/..."
  virtual void import_state(const NamedState& state) = 0;
};

// UserError naming the valid choices for an unknown scaling, warm-up or decay.
std::unique_ptr<Schedule> make_schedule(const spec::ScheduleSpec& spec, const ScheduleContext& context);

}  // namespace mlbench::schedule
