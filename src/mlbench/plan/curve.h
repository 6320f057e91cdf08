#pragma once

// Computes learning-rate curves of a task.

#include <cstdint>
#include <vector>

#include "mlbench/spec/task.h"

namespace mlbench::plan {

struct Curve {
  int64_t workers = 1;
  int64_t steps_per_epoch = 1;
  std::vector<double> epochs, lr;  // points: epochs that are done, and the learning rate of the next step
};

// The number of steps in an epoch, from the data's description alone. It is exact for samples, and for sentences where
// none is left out. For columns of a text it is the average over drawn lengths. For sentences by tokens it is an
// estimate in which each sentence has half of the longest length.
int64_t expected_steps_per_epoch(const spec::TaskSpec& task, int64_t workers, int64_t training_samples);

// The training samples in the description of the task's data set. Throws UserError where it has no split "train".
int64_t train_split_samples(const spec::TaskSpec& task);

// The curve with at most `points` points, evenly spread over the task's epochs, the first and last step among them.
Curve lr_curve(const spec::TaskSpec& task, int64_t workers, int64_t training_samples, int64_t points);

}  // namespace mlbench::plan
