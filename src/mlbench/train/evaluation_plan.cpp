#include "mlbench/train/evaluation_plan.h"

#include <algorithm>
#include <cmath>

#include "mlbench/spec/epoch.h"

namespace mlbench::train {

EvaluationPlan::EvaluationPlan(const spec::EvaluationSpec& spec, int64_t training_samples, int64_t global_batch)
    : spec_(spec),
      training_samples_(training_samples),
      global_batch_(global_batch),
      steps_per_epoch_(spec::steps_per_epoch(training_samples, global_batch)) {}

int64_t EvaluationPlan::samples_after(int64_t steps) const {
  const int64_t in_epoch = std::min((steps % steps_per_epoch_) * global_batch_, training_samples_);
  return steps / steps_per_epoch_ * training_samples_ + in_epoch;
}

bool EvaluationPlan::due(int64_t steps_done) const {
  const int64_t in_epoch = steps_done % steps_per_epoch_;
  if (spec_.every_epoch && in_epoch == 0) return true;
  if (spec_.every_samples > 0) {
    return samples_after(steps_done) / spec_.every_samples > samples_after(steps_done - 1) / spec_.every_samples;
  }
  if (spec_.every_fraction > 0) {
    const double period = spec_.every_fraction * static_cast<double>(steps_per_epoch_);
    const auto passed = [&](int64_t step) { return std::floor(static_cast<double>(step) / period + 1e-9); };
    return in_epoch == 0 || passed(in_epoch) > passed(in_epoch - 1);
  }
  return false;
}

}  // namespace mlbench::train
