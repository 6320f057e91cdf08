#pragma once

// Says when a run evaluates.

#include <cstdint>

#include "mlbench/data/plan.h"
#include "mlbench/spec/task.h"

namespace mlbench::train {

// Says when evaluations are due by the task's cadence, as a pure function, with the same answer on every rank.
class EvaluationPlan {
 public:
  // `batches` must outlive the plan.
  EvaluationPlan(const spec::EvaluationSpec& spec, const data::BatchPlan& batches) : spec_(spec), batches_(batches) {}
  // Whether an evaluation is due after `steps_done` steps, which must be positive.
  bool due(int64_t steps_done) const;

 private:
  spec::EvaluationSpec spec_;
  const data::BatchPlan& batches_;
};

}  // namespace mlbench::train
