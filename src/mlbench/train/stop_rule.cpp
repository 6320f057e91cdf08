#include "mlbench/train/stop_rule.h"

#include <algorithm>
#include <cmath>

#include "mlbench/metrics/metric.h"

namespace mlbench::train {

namespace {

int64_t epochs_to_steps(double epochs, int64_t steps_per_epoch) {
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch) - 1e-9));
}

}  // namespace

StopRule::StopRule(const TrainContext& context, const track::StepClock& clock, int64_t steps_per_epoch,
                   int64_t first_step)
    : c_(context),
      clock_(clock),
      first_step_(first_step),
      last_step_(epochs_to_steps(context.run.task.task.epochs, steps_per_epoch)) {
  const spec::Limits& limits = c_.run.limits;
  const auto limit = [&](int64_t steps, StopReason reason) {
    if (steps > 0 && (steps < last_step_ || c_.run.fixed_batch)) {
      last_step_ = steps;
      last_step_reason_ = reason;
    }
  };
  limit(epochs_to_steps(limits.max_epochs, steps_per_epoch), StopReason::kMaxEpochs);
  limit(limits.max_steps, StopReason::kMaxSteps);
}

bool StopRule::check_goal(std::string_view split, const MetricSet& metrics) {
  const spec::GoalSpec& goal = c_.run.task.task.goal;
  if (goal.split != split || goal.metric.empty()) return false;
  const bool met = spec::goal_met(goal, c_.run.limits.light, metrics.value(goal.metric));
  goal_reached_ = goal_reached_ || met;
  return met;
}

void StopRule::add_evaluation(int64_t step, int64_t duration_ns) {
  evaluation_ns_ += duration_ns;
  next_time_check_ = step;
}

bool StopRule::out_of_time(int64_t step) {
  if (c_.run.limits.max_time_s <= 0 || step < next_time_check_) return false;
  // Rank 0's clock decides. It looks again after a tenth of the time left, so that short steps pay next to nothing.
  const double elapsed_s = static_cast<double>(c_.elapsed_before_ns + clock_.train_ns() + evaluation_ns_) * 1e-9;
  const double left_s = c_.run.limits.max_time_s - elapsed_s;
  const double train_s = static_cast<double>(std::max<int64_t>(clock_.train_ns(), 1)) * 1e-9;
  const double steps_left = left_s / train_s * static_cast<double>(step - first_step_);  // unknown before the first: 0
  int64_t next = left_s <= 0 ? -1 : step + std::max<int64_t>(1, static_cast<int64_t>(0.1 * steps_left));
  c_.comm.broadcast({&next, 1, DType::kInt64, {}}, 0);
  next_time_check_ = next;
  return next < 0;
}

std::optional<StopReason> StopRule::reason_to_stop(int64_t step) {
  if (goal_reached_) return StopReason::kGoal;
  if (step >= last_step_) return last_step_reason_;
  if (out_of_time(step)) return StopReason::kMaxTime;
  return std::nullopt;
}

}  // namespace mlbench::train
