#pragma once

// When a run ends: at its goal, or at the first of its limits.

#include <cstdint>
#include <optional>
#include <string_view>

#include "mlbench/track/recorder.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

// Every rank asks the same questions in the same order and gets the same answers.
class StopRule {
 public:
  // `clock` is the run's train clock; `first_step` the number of steps that were done before this segment.
  StopRule(const TrainContext& context, const track::StepClock& clock, int64_t steps_per_epoch, int64_t first_step);

  // Steps after which the run ends at the latest.
  int64_t last_step() const { return last_step_; }

  // Whether these metrics of `split` reach the goal: the run is over then.
  bool check_goal(std::string_view split, const MetricSet& metrics);
  // An evaluation counts as time of the run, and the clock is looked at behind it.
  void add_evaluation(int64_t step, int64_t duration_ns);

  // Whether goal or number of steps end the run here. Asks no clock.
  bool ends_after(int64_t step) const { return goal_reached_ || step >= last_step_; }
  // Why the run ends after this many steps; empty: it goes on. Collective where the run has a limit of time.
  std::optional<StopReason> reason_to_stop(int64_t step);

 private:
  bool out_of_time(int64_t step);

  const TrainContext& c_;
  const track::StepClock& clock_;
  const int64_t first_step_;
  int64_t last_step_;  // exclusive
  StopReason last_step_reason_ = StopReason::kEpochs;
  bool goal_reached_ = false;
  int64_t evaluation_ns_ = 0;  // of this segment
  int64_t next_time_check_ = 0;
};

}  // namespace mlbench::train
