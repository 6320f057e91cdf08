#pragma once

// What a task's batches and epochs are with a number of workers (TaskSpec::batch_scaling).

#include <cstdint>

#include "mlbench/spec/task.h"

namespace mlbench::spec {

// The size of a worker's micro-batch.
int64_t worker_batch_of(const TaskSpec& task, int64_t workers);
// The samples, sentences or tokens in a step of all workers.
int64_t global_batch_of(const TaskSpec& task, int64_t workers);
double epochs_of(const TaskSpec& task, int64_t workers);

}  // namespace mlbench::spec
