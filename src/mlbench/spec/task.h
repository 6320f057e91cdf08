#pragma once

// A benchmark task as data: what is computed, on what, until when. Read from a self-contained TOML file per task and
// rule set (tasks/*.toml, embedded into both programs), checked, frozen to canonical JSON, hashed.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::spec {

struct DataSpec {
  std::string name;                     // data set description (tasks/data/NAME.toml)
  std::vector<int64_t> sample_shape;    // e.g. {1, 28, 28}
  int64_t classes = 0;
  // Transform applied in order to train and evaluation samples: "scale_255", "normalise", "pad_crop_flip" ...
  std::vector<std::string> train_transform;
  std::vector<std::string> eval_transform;
  std::vector<double> mean, stddev;     // per channel, for "normalise"; empty otherwise
};

struct ModelSpec {
  std::string name;                     // neutral description in models/, e.g. "mnist-cnn"
  Json options = Json::object();        // what the description takes, e.g. {"dropout": 0.4}
};

struct OptimizerSpec {
  std::string name;                     // catalog row, e.g. "centralized_sgd"
  double lr = 0;
  Json options = Json::object();        // momentum, nesterov, weight_decay, dampening, by_layer ...
};

struct ScheduleSpec {
  // lr(k): "none" = lr, "linear" = lr * k, "sqrt" = lr * sqrt(k).
  std::string scaling = "none";
  // Linear warm-up from lr to the scaled lr. Length: "epochs" x warmup_epochs (0: none);
  // "log2_workers": log2(k) epochs.
  std::string warmup = "none";          // none | epochs | log2_workers
  double warmup_epochs = 0;
  // "constant" | "multistep" (milestones in epochs, factor) | "plateau" (factor, patience, threshold, floor as a
  // fraction of the start) | "inverse_sqrt" (alpha / sqrt(t)).
  std::string decay = "constant";
  std::vector<double> milestones;
  double factor = 0;
  int64_t patience = 0;
  double threshold = 0;
  double floor = 0;
};

struct EvaluationSpec {
  // Exactly one is positive. Epoch ends are always evaluated when `every_epoch`.
  bool every_epoch = true;
  int64_t every_samples = 0;            // global training samples
  double every_fraction = 0;            // of an epoch (and at its end)
  std::vector<std::string> metrics;     // catalog of metrics/, first is the primary one
};

struct GoalSpec {
  std::string metric;                   // e.g. "Prec@1"
  std::string split = "test";           // test | train
  double target = 0;
  double light_target = 0;
  bool higher_is_better = true;
};

struct TaskSpec {
  std::string name;                     // "fashion-mnist", "1a"
  std::string title;
  std::string rules;                    // "2018", "2021" or "" when the task has no rule sets
  std::vector<std::string> variants;    // official choices, first is the default; may be empty
  std::string variant;                  // chosen
  std::vector<int64_t> workers;         // official K list
  DataSpec data;
  ModelSpec model;
  std::string loss;                     // "cross_entropy"
  int64_t batch_size = 0;               // per worker
  double epochs = 0;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  EvaluationSpec evaluation;
  GoalSpec goal;
};

// One `--set key=value`: dotted path into the task file, value as TOML ("0.1", "true", "\"text\"" or a bare word).
struct Override {
  std::string key;
  std::string value;
};

struct FrozenTask {
  TaskSpec task;
  Json canonical;                       // complete, defaults filled in, overrides applied
  std::string hash;                     // SHA-256 over canonical_json of the task file *without* overrides
  bool open = false;                    // any override that is not an official variant
};

// A task file as shipped or as given by path.
struct TaskSource {
  std::string name;                     // "fashion-mnist.toml"
  std::string_view text;
};

// All tasks that are built in, in file-name order.
std::vector<TaskSource> embedded_tasks();

// Parses, applies the variant and overrides, checks every key and value. UserError with
// "FILE:LINE:COLUMN: what was given, what was expected, valid choices" (a misspelt key is an error, with the nearest
// valid ones). `variant` empty: the first official one.
FrozenTask parse_task(const TaskSource& source, const std::string& variant, const std::vector<Override>& overrides);

// The embedded task of that name and rule set ("" = newest). UserError listing the valid choices.
FrozenTask find_task(const std::string& name, const std::string& rules, const std::string& variant,
                     const std::vector<Override>& overrides);

// From the canonical form (a run folder's spec.json); exact inverse of FrozenTask::canonical.
TaskSpec task_from_json(const Json& canonical);

}  // namespace mlbench::spec
