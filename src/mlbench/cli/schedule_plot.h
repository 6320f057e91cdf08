#pragma once

// Learning-rate curves of a task.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/spec/task.h"

namespace mlbench::cli {

struct Curve {
  int64_t workers = 1;
  int64_t steps_per_epoch = 1;
  std::vector<double> epochs, lr;  // points: epoch (steps done / steps per epoch) and learning rate of the next step
};

// At most `points` of them, evenly spread over the task's epochs, the first and last step among them.
Curve lr_curve(const spec::TaskSpec& task, int64_t workers, int64_t training_samples, int64_t points);

// What gnuplot reads on standard input. `terminal` is one of our own words, `output` a file name or "" (standard
// output); outside names enter as cells of the $data block only.
std::string gnuplot_script(const std::string& title, const std::vector<Curve>& curves, const std::string& terminal,
                           const std::filesystem::path& output);

}  // namespace mlbench::cli
