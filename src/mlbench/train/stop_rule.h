#pragma once

// Says when a run ends: at its goal, at the first of its limits, or where it is stopped. Only values at the task's own
// cadence may meet a goal (evaluation_plan.h; full epochs on the training split). The caller of check_goal() must see
// to that.

#include <cstdint>
#include <optional>
#include <string_view>

#include "mlbench/data/plan.h"
#include "mlbench/track/step_clock.h"
#include "mlbench/train/checkpoint_keeper.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

// Precondition: every rank asks the same questions in the same order. Every rank gets the same answers.
class StopRule {
 public:
  // `clock` is the run's train clock, and `start` is where this segment begins. `context` and `clock` must outlive the
  // rule.
  StopRule(const TrainContext& context, const track::StepClock& clock, const data::BatchPlan& batches,
           const Position& start);

  // The number of steps after which the run ends at the latest.
  int64_t last_step() const { return last_step_; }

  // Whether `metrics` of `split` are the first to reach the goal. Then the run is over, unless it goes to the end.
  bool check_goal(std::string_view split, const MetricSet& metrics);
  // Whether the goal was reached, which a checkpoint keeps, so that a goal is not met a second time.
  bool goal_reached() const { return goal_reached_; }
  // Must be called after each evaluation, as its duration counts as time of the run. The next reason_to_stop() reads
  // the clock.
  void add_evaluation(int64_t step, int64_t duration_ns);

  // Whether goal or number of steps end the run here. Reads no clock.
  bool ends_after(int64_t step) const { return ends_at_goal() || step >= last_step_; }
  // Whether reason_to_stop(step) is a collective.
  bool looks_at_clock(int64_t step) const { return c_.run.limits.max_time_s > 0 && step >= next_look_; }
  // The reason for which the run ends after `step` steps; empty: it goes on. Collective where the run has a time limit.
  // Waits while the ranks of a run that is stopped agree on their last step.
  std::optional<StopReason> reason_to_stop(int64_t step);

 private:
  bool ends_at_goal() const { return goal_reached_ && !c_.run.limits.to_the_end; }
  bool out_of_time(int64_t step);
  int64_t steps_to_next_look(int64_t step, int64_t left_ns);

  const TrainContext& c_;
  const track::StepClock& clock_;
  const int64_t first_step_;
  int64_t last_step_;  // exclusive
  StopReason last_step_reason_ = StopReason::kEpochs;
  bool goal_reached_;
  int64_t evaluation_ns_ = 0;  // evaluation time of this segment
  // The step and train time of the last look at the clock, the steps between two looks, and the step of the next one.
  int64_t look_step_, look_train_ns_ = 0, steps_between_looks_ = 1;
  int64_t next_look_ = 0;
};

}  // namespace mlbench::train
