#include "mlbench/spec/batch_scaling.h"

namespace mlbench::spec {

int64_t worker_batch_of(const TaskSpec& task, int64_t workers) {
  return task.batch_scaling == "linear" ? task.batch_size * workers : task.batch_size;
}

int64_t global_batch_of(const TaskSpec& task, int64_t workers) {
  return task.global_batch > 0 ? task.global_batch : worker_batch_of(task, workers) * workers;
}

double epochs_of(const TaskSpec& task, int64_t workers) {
  return task.batch_scaling == "linear" ? task.epochs * static_cast<double>(workers) : task.epochs;
}

}  // namespace mlbench::spec
