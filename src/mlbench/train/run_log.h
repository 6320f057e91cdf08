#pragma once

// What a rank tells of its run: one record per step, and every event (record/spool.h) of the training loop. The one
// place that knows how events look. Rank 0 says what is the same on all ranks; the others only when it was.

#include <cstdint>
#include <filesystem>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/data/plan.h"
#include "mlbench/track/recorder.h"
#include "mlbench/track/step_clock.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

// `step` is the number of steps done, from the run's beginning.
class RunLog {
 public:
  // `clock` is the run's train clock.
  RunLog(const TrainContext& context, const data::BatchPlan& plan, const track::StepClock& clock);

  void begin(int64_t step, int64_t last_step);
  // The step number sample.step (from 0) just ended. Throws the first error of the recorder, if any.
  void step(track::StepSample sample);
  // What the update of the step number `step - 1` was.
  void update(int64_t step, const optim::StepOutcome& outcome);
  void epoch(int64_t step, const MetricSet& metrics);
  // `cadence`: whether it was due by the task's cadence.
  void evaluation(int64_t step, int64_t duration_ns, bool cadence, const MetricSet& metrics);
  // Weights are averaged from the next step on.
  void averaging(int64_t step);
  // These metrics of the goal's split reached it.
  void goal(int64_t step, const MetricSet& metrics);
  void checkpoint(int64_t step, const std::filesystem::path& folder);
  void operations(int64_t step, Json operations);
  // The last one: when it returns, everything is on disk; else it throws the recorder's error.
  void end(int64_t step, StopReason reason, const std::string& weights_sha256);

 private:
  bool is_first_rank() const { return c_.comm.rank() == 0; }
  void check_recorder() const;

  const TrainContext& c_;
  const data::BatchPlan& plan_;
  const track::StepClock& clock_;
  double told_loss_scale_;
  // Of the epoch so far, in this segment.
  int64_t normed_steps_ = 0, clipped_steps_ = 0;
  double norm_sum_ = 0;
};

}  // namespace mlbench::train
