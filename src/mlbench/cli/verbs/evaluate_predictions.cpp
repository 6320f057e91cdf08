#include "mlbench/cli/verbs/evaluate_predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/cli/context.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/metrics/predictions.h"
#include "mlbench/metrics/text_predictions.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/evaluation_columns.h"
#include "mlbench/spec/loss.h"
#include "mlbench/spec/split.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

dataset::PreparedDataset prepare(const spec::RunSpec& run) {
  const auto& description = dataset::find_description(run.data_name);
  fs::create_directories(run.cache_dir);
  if (run.synthetic) return dataset::make_synthetic(description, run.cache_dir);
  return dataset::prepare(description, run.data_dirs, run.cache_dir, [](const std::string& line) { say(line); });
}

// What a run's evaluation predicts of the split, and how much of it the predictions of another program must have.
metrics::TextShape shape_of(const spec::DataSpec& data, const dataset::CachedSplit& split) {
  metrics::TextShape shape;
  if (data.batching == "columns") {
    const int64_t columns = spec::evaluation_columns(data);
    shape.most_tokens = std::ssize(split.column<dataset::TokenColumn>("tokens").elements);
    shape.least_tokens = (shape.most_tokens / columns - 1) * columns;
    return shape;
  }
  const dataset::TokenColumn& targets = split.column<dataset::TokenColumn>("target");
  for (int64_t i = 0; i < targets.records(); ++i) {
    const int64_t length = targets.length(i), most = data.evaluation_max_length;
    shape.tokens.push_back((most > 0 ? std::min(length, most) : length) + 1);  // and the token at the end
  }
  return shape;
}

metrics::PredictionMetrics text_metrics(const fs::path& file, const spec::TaskSpec& task,
                                        const dataset::PreparedDataset& data, const dataset::CachedSplit& split) {
  const auto predictions = metrics::read_text_predictions(file, shape_of(task.data, split));
  std::vector<std::string> references;
  if (!predictions.texts.empty() && !data.synthetic()) references = data.text()->references(spec::kTestSplit);
  return metrics::evaluate(predictions, references, task.evaluation.metrics);
}

metrics::PredictionMetrics class_metrics(const fs::path& file, const spec::TaskSpec& task,
                                         const dataset::CachedSplit& split) {
  const auto predictions =
      metrics::read_predictions(file, {split.samples, task.data.classes, models::describe_model(task).outputs});
  return metrics::evaluate(predictions, split.labels(), task.evaluation.metrics);
}

}  // namespace

Json evaluate_predictions(const fs::path& file, const spec::RunSpec& run) {
  const spec::TaskSpec& task = run.task.task;
  const spec::LossKind loss = spec::loss_kind(task.loss);
  const bool over_tokens = loss.over_tokens;
  if (!over_tokens && !loss.classifies) {
    throw UserError(fmt::format(
        "predictions are of classes or of text, and 'loss' is \"{}\"; expected a checkpoint or weights", task.loss));
  }
  const dataset::PreparedDataset data = prepare(run);
  const dataset::CachedSplit& split = data.split(spec::kTestSplit);
  const metrics::PredictionMetrics result =
      over_tokens ? text_metrics(file, task, data, split) : class_metrics(file, task, split);
  return {{"samples", split.samples},  {"data", data.record()}, {"metrics", result.values},
          {"weights_sha256", nullptr}, {"step", nullptr},       {"notes", result.notes}};
}

}  // namespace mlbench::cli
