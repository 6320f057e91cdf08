#pragma once

// Records what a rank has to say about its run: one record per step, and every event (record/spool.h) of the training
// loop. Only this class knows the form of events. Rank 0 records what is the same on all ranks; the others record only
// when it was.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/base/read_bytes.h"
#include "mlbench/data/bad_sample.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/ring_gauge.h"
#include "mlbench/objects/object_store.h"
#include "mlbench/track/recorder.h"
#include "mlbench/track/step_clock.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

// In all calls, `step` is the number of steps done since the run's beginning.
class RunLog {
 public:
  // `clock` is the run's train clock. The arguments must outlive the log.
  RunLog(const TrainContext& context, const data::BatchPlan& plan, const track::StepClock& clock);

  // Where the run's loader tells how full its ring is.
  const std::shared_ptr<data::RingGauge>& ring() const { return ring_; }

  void begin(int64_t step, int64_t last_step);
  // Records the step with number sample.step (from 0), which has just ended. Throws the recorder's first error, if
  // there is one.
  void step(track::StepSample sample);
  // Records the outcome of the update in the step with number `step - 1`.
  void update(int64_t step, const optim::StepOutcome& outcome);
  void epoch(int64_t step, const MetricSet* metrics);  // null: none are measured
  // `cadence` says whether the evaluation was due by the task's cadence.
  void evaluation(int64_t step, int64_t duration_ns, bool cadence, const MetricSet& metrics);
  // Records that an image could not be decoded, `name` being that of its file.
  void bad_image(int64_t step, const data::BadSample& bad, const std::string& name);
  // Records that weights are averaged from the next step on.
  void averaging(int64_t step);
  // Records that `metrics`, of the goal's split, reached the goal.
  void goal(int64_t step, const MetricSet& metrics);
  void checkpoint(int64_t step, const std::filesystem::path& folder);
  void operations(int64_t step, Json operations);
  // Records the end; must be the last call. When it returns, everything is on disk; otherwise it throws the recorder's
  // error.
  void end(int64_t step, StopReason reason, const std::string& weights_sha256);

 private:
  bool is_first_rank() const { return c_.comm.rank() == 0; }
  void check_recorder() const;

  const TrainContext& c_;
  const data::BatchPlan& plan_;
  const track::StepClock& clock_;
  double told_loss_scale_;
  int64_t bad_images_ = 0;  // that bad_image() told
  const std::shared_ptr<data::RingGauge> ring_ = std::make_shared<data::RingGauge>();
  const std::shared_ptr<const objects::ObjectStore> store_;  // where samples come from; null: from a disk
  // These are of when the current epoch began, or the segment within it.
  std::optional<ReadBytes> read_at_epoch_;
  objects::Counters objects_at_epoch_;
  // Sums over the current epoch, as far as this segment has seen it.
  int64_t normed_steps_ = 0, clipped_steps_ = 0;
  double norm_sum_ = 0;
};

}  // namespace mlbench::train
