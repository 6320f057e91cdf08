#pragma once

// Learning-rate curves of a task.

#include <cstdint>
#include <vector>

#include "mlbench/spec/task.h"

namespace mlbench::plan {

struct Curve {
  int64_t workers = 1;
  int64_t steps_per_epoch = 1;
  std::vector<double> epochs, lr;  // points: epoch (steps done / steps per epoch) and learning rate of the next step
};

// Steps in an epoch, from the data's description alone: exact of samples, and of sentences where none is left out. Of a
// text in columns what drawn lengths come to on average; of sentences by tokens about that, as if each had half of the
// longest length.
int64_t expected_steps_per_epoch(const spec::TaskSpec& task, int64_t workers, int64_t training_samples);

// Of the data set's description. UserError where it has no split "train".
int64_t train_split_samples(const spec::TaskSpec& task);

// At most `points` of them, evenly spread over the task's epochs, the first and last step among them.
Curve lr_curve(const spec::TaskSpec& task, int64_t workers, int64_t training_samples, int64_t points);

}  // namespace mlbench::plan
