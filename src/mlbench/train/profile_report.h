#pragma once

// Reports the operations of a training step (--explain), and what each of them costs (--profile).

#include <cstdint>
#include <optional>

#include "mlbench/base/json.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

class ProfileReport {
 public:
  explicit ProfileReport(const TrainContext& context) : c_(context) {}

  // Must be called before each step of the segment. `samples` are this rank's samples in the step, in all its
  // micro-batches. The first three steps, which allocate memory and fill caches, are not counted.
  void begin_step(int64_t samples);

  // The record's `operations`, on rank 0: means over the counted steps, on the first thread of this rank. All figures
  // are null where the run's profile is not "time". Empty on other ranks, and where nothing was asked for or no step
  // was counted.
  std::optional<Json> operations() const;

 private:
  bool timed() const { return c_.run.profile == "time"; }

  const TrainContext& c_;
  int64_t steps_seen_ = 0;
  int64_t steps_ = 0, samples_ = 0;  // of the counted steps
};

}  // namespace mlbench::train
