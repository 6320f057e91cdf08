#include "mlbench/train/stop_rule.h"

#include <algorithm>
#include <cmath>

#include "mlbench/metrics/metric.h"
#include "mlbench/spec/batch_scaling.h"

namespace mlbench::train {

StopRule::StopRule(const TrainContext& context, const track::StepClock& clock, const data::BatchPlan& batches,
                   const Position& start)
    : c_(context),
      clock_(clock),
      first_step_(start.steps),
      last_step_(batches.steps_after(spec::epochs_of(context.run.task.task, context.run.workers))),
      goal_reached_(start.goal_reached),
      look_step_(start.steps) {
  const spec::Limits& limits = c_.run.limits;
  const auto limit = [&](int64_t steps, StopReason reason) {
    if (steps > 0 && (steps < last_step_ || c_.run.fixed_batch)) {
      last_step_ = steps;
      last_step_reason_ = reason;
    }
  };
  limit(batches.steps_after(limits.max_epochs), StopReason::kMaxEpochs);
  limit(limits.max_steps, StopReason::kMaxSteps);
}

bool StopRule::check_goal(std::string_view split, const MetricSet& metrics) {
  const spec::GoalSpec& goal = c_.run.task.task.goal;
  if (goal_reached_ || goal.split != split || goal.metric.empty()) return false;
  goal_reached_ = spec::goal_met(goal, c_.run.limits.light, metrics.value(goal.metric));
  return goal_reached_;
}

void StopRule::add_evaluation(int64_t step, int64_t duration_ns) {
  evaluation_ns_ += duration_ns;
  next_look_ = step;
}

// The number of steps until the next look at the clock. By the slower of the pace so far and the pace since the last
// look, these steps take at most a tenth of the time left and 1 % of the limit. So a pace that falls to a tenth between
// two looks does not carry the run beyond its limit. The number is at most twice the one before, as the first steps may
// differ from those that follow.
int64_t StopRule::steps_to_next_look(int64_t step, int64_t left_ns) {
  const auto pace = [](int64_t ns, int64_t steps) {
    return steps > 0 ? static_cast<double>(ns) / static_cast<double>(steps) : 0;
  };
  const int64_t train_ns = clock_.train_ns();
  const double step_ns =
      std::max({1.0, pace(train_ns, step - first_step_), pace(train_ns - look_train_ns_, step - look_step_)});
  const double span_ns = std::min(0.1 * static_cast<double>(left_ns), 0.01 * 1e9 * c_.run.limits.max_time_s);
  const auto most = static_cast<double>(step > look_step_ ? 2 * steps_between_looks_ : 1);
  steps_between_looks_ = static_cast<int64_t>(std::clamp(span_ns / step_ns, 1.0, most));
  look_step_ = step;
  look_train_ns_ = train_ns;
  return steps_between_looks_;
}

bool StopRule::out_of_time(int64_t step) {
  if (!looks_at_clock(step)) return false;
  // Rank 0's clock decides. Ranks look at it seldom, so that short steps pay next to nothing.
  const int64_t elapsed_ns = c_.elapsed_before_ns + clock_.train_ns() + evaluation_ns_;
  const int64_t left_ns = static_cast<int64_t>(std::ceil(c_.run.limits.max_time_s * 1e9)) - elapsed_ns;
  int64_t next = left_ns <= 0 ? -1 : step + steps_to_next_look(step, left_ns);
  c_.comm.broadcast({&next, 1, DType::kInt64, {}}, 0);
  next_look_ = next;
  return next < 0;
}

std::optional<StopReason> StopRule::reason_to_stop(int64_t step) {
  if (ends_at_goal()) return StopReason::kGoal;
  if (step >= last_step_) return last_step_reason_;
  if (c_.stop != nullptr && c_.stop->reached(step)) return StopReason::kStopped;
  if (out_of_time(step)) return StopReason::kMaxTime;
  return std::nullopt;
}

}  // namespace mlbench::train
