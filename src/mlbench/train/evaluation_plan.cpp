#include "mlbench/train/evaluation_plan.h"

#include <cmath>

namespace mlbench::train {

bool EvaluationPlan::due(int64_t steps_done) const {
  const bool epoch_ends = batches_.ends_epoch(steps_done);
  if (spec_.every_epoch && epoch_ends) return true;
  if (spec_.every_samples > 0) {
    const auto passed = [&](int64_t steps) { return batches_.samples_after(steps) / spec_.every_samples; };
    return passed(steps_done) > passed(steps_done - 1);
  }
  if (spec_.every_fraction > 0) {
    const int64_t epoch = batches_.epoch_of(steps_done), in_epoch = steps_done - batches_.first_step(epoch);
    const double period = spec_.every_fraction * static_cast<double>(batches_.steps_in(epoch));
    const auto passed = [&](int64_t step) { return std::floor(static_cast<double>(step) / period + 1e-9); };
    return epoch_ends || passed(in_epoch) > passed(in_epoch - 1);
  }
  return false;
}

}  // namespace mlbench::train
