#include "mlbench/plan/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/description.h"
#include "mlbench/schedule/schedule.h"
#include "mlbench/spec/batch_scaling.h"
#include "mlbench/spec/epoch.h"
#include "mlbench/spec/split.h"

namespace mlbench::plan {

int64_t expected_steps_per_epoch(const spec::TaskSpec& task, int64_t workers, int64_t training_samples) {
  const spec::DataSpec& data = task.data;
  const int64_t global_batch = spec::global_batch_of(task, workers);
  if (data.batching == "columns") {
    const double mean = static_cast<double>(data.bptt) * (1 - data.short_probability / 2);
    const int64_t height = training_samples / global_batch;
    return std::max<int64_t>(1, std::llround(static_cast<double>(height) / mean));
  }
  if (data.batching == "tokens") {
    constexpr int64_t kUsualLength = 32;
    const int64_t length = data.max_length > 0 ? (data.max_length + 1) / 2 : kUsualLength;
    return spec::steps_per_epoch(training_samples * length, global_batch);
  }
  return spec::steps_per_epoch(training_samples, global_batch);
}

int64_t train_split_samples(const spec::TaskSpec& task) {
  for (const dataset::SplitSpec& split : dataset::find_description(task.data.name).splits) {
    if (split.name != spec::kTrainSplit) continue;
    return split.samples - spec::held_out_samples(split.samples, task.data.holdout);
  }
  throw UserError(
      fmt::format("data set '{}' of task '{}' has no split '{}'", task.data.name, task.name, spec::kTrainSplit));
}

Curve lr_curve(const spec::TaskSpec& task, int64_t workers, int64_t training_samples, int64_t points) {
  Curve curve;
  curve.workers = workers;
  curve.steps_per_epoch = expected_steps_per_epoch(task, workers, training_samples);
  const auto steps = std::max<int64_t>(1, spec::steps_of_epochs(spec::epochs_of(task, workers), curve.steps_per_epoch));
  const auto schedule =
      schedule::make_schedule(task.schedule, {task.optimizer.lr, workers, curve.steps_per_epoch, steps});
  const int64_t count = std::min(points, steps);
  for (int64_t i = 0; i < count; ++i) {
    // i * (steps - 1) / (count - 1), without the product, which may not fit.
    const int64_t parts = std::max<int64_t>(count - 1, 1);
    const int64_t step = (steps - 1) / parts * i + (steps - 1) % parts * i / parts;
    curve.epochs.push_back(double(step) / double(curve.steps_per_epoch));
    curve.lr.push_back(schedule->lr(step));
  }
  return curve;
}

}  // namespace mlbench::plan
