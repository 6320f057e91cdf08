#pragma once

// What any solver predicted for the samples of an evaluation split, as JSON lines, one per sample, in any order:
//   {"index": 7, "label": 3}              the predicted class, or
//   {"index": 7, "scores": [0.1, ...]}    one score per output of the task's model; the highest one is the predicted
//                                         class. For a task with one output: the probability of class 1
// `index` is the place of the sample in the split's official order, from 0. A file holds labels or scores, not both.
// Other keys and empty lines are ignored.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::metrics {

// What the predictions must fit.
struct PredictionShape {
  int64_t samples = 0;  // number of samples in the split
  int64_t classes = 0;
  int64_t outputs = 0;  // number of the model's outputs: `classes`, or 1 for a binary task
};

// Predictions in official order. Either `labels` or `scores` is empty.
struct Predictions {
  PredictionShape shape;
  std::vector<int64_t> labels;  // [samples]
  std::vector<float> scores;    // [samples, outputs], row-major
};

// Throws UserError "FILE:LINE: what was given, what was expected" for a line that is no prediction, an index out of
// range or given twice, and a wrong class or number of scores. Throws UserError naming the first samples without a
// prediction. Throws IoError.
Predictions read_predictions(const std::filesystem::path& file, const PredictionShape& shape);

// The metrics by name. A metric is null, with a note that says why, where it cannot be computed from the predictions:
// always the loss; and, where there are only labels, a metric that needs scores.
struct PredictionMetrics {
  Json values = Json::object();
  std::vector<std::string> notes;
};
PredictionMetrics evaluate(const Predictions& predictions, std::span<const int64_t> labels,
                           const std::vector<std::string>& metrics);

}  // namespace mlbench::metrics
