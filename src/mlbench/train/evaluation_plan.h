#pragma once

// When a run evaluates.

#include <cstdint>

#include "mlbench/data/plan.h"
#include "mlbench/spec/task.h"

namespace mlbench::train {

// When evaluations are due: pure, the same on every rank.
class EvaluationPlan {
 public:
  // `batches` outlives it.
  EvaluationPlan(const spec::EvaluationSpec& spec, const data::BatchPlan& batches) : spec_(spec), batches_(batches) {}
  // After `steps_done` steps (> 0).
  bool due(int64_t steps_done) const;

 private:
  spec::EvaluationSpec spec_;
  const data::BatchPlan& batches_;
};

}  // namespace mlbench::train
