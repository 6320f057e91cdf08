#pragma once

// When a run evaluates.

#include <cstdint>

#include "mlbench/spec/task.h"

namespace mlbench::train {

// When evaluations are due: pure, the same on every rank.
class EvaluationPlan {
 public:
  EvaluationPlan(const spec::EvaluationSpec& spec, int64_t training_samples, int64_t global_batch);
  // After `steps_done` steps (> 0).
  bool due(int64_t steps_done) const;
  // Training samples of all ranks in the first `steps` steps.
  int64_t samples_after(int64_t steps) const;
  int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  spec::EvaluationSpec spec_;
  int64_t training_samples_;
  int64_t global_batch_;
  int64_t steps_per_epoch_;
};

}  // namespace mlbench::train
