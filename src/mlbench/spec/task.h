#pragma once

// A benchmark task as data: what is computed, on what, until when. Read from a self-contained TOML file per task and
// rule set (tasks/*.toml, embedded into both programs), checked, frozen to canonical JSON, hashed.
//
// The keys of a file are the members below, a nested structure being a table: optimizer.lr, schedule.decay. Options of
// the model and the optimizer stand beside the named keys of their table (optimizer.momentum); whoever implements the
// model or the optimizer checks their names and values. An official variant may have a table [variant.NAME] that holds
// what it changes, in the same structure.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/goal.h"

namespace mlbench::spec {

struct DataSpec {
  std::string name;                   // data set description (tasks/data/NAME.toml)
  std::vector<int64_t> sample_shape;  // e.g. {1, 28, 28}; empty for text
  int64_t classes = 0;                // of text: size of the vocabulary, padding included
  // Transform applied in order to train and evaluation samples: "scale_255", "normalise", "pad_crop_flip" ...
  std::vector<std::string> train_transform;
  std::vector<std::string> eval_transform;
  std::vector<double> mean, stddev;  // per channel, for "normalise"; empty otherwise
  // What a step takes (data/plan.h): "samples" of one shape | "columns" of one text | "sentences" with their
  // translations, so many of them | "tokens": such sentences by the number of their tokens.
  std::string batching = "samples";
  // Columns: a step takes max(5, N(m, bptt_deviation)) positions, m being bptt / 2 with short_probability, else bptt.
  int64_t bptt = 0;
  double bptt_deviation = 0;
  double short_probability = 0;
  int64_t evaluation_batch = 0;  // columns or sentences at a time; 0: 10 columns, 64 sentences
  // Of a sentence and of its translation, without the end: longer pairs are left out of training; of the evaluation
  // nothing is left out, but cut. 0: any length.
  int64_t max_length = 0;
  int64_t evaluation_max_length = 0;
  int64_t length_multiple = 1;  // sentences are padded to one of this
  bool operator==(const DataSpec&) const = default;
};

struct ModelSpec {
  std::string name;               // neutral description in models/, e.g. "mnist-cnn"
  Json options = Json::object();  // what the description takes, e.g. {"dropout": 0.4}
  bool operator==(const ModelSpec&) const = default;
};

struct OptimizerSpec {
  std::string name;  // catalog row, e.g. "centralized_sgd"
  double lr = 0;
  // momentum, nesterov, weight_decay, clip_norm, loss_scale, by_layer ... (optim/factory.h)
  Json options = Json::object();
  bool operator==(const OptimizerSpec&) const = default;
};

struct ScheduleSpec {
  // lr(k): "none" = lr, "linear" = lr * k, "sqrt" = lr * sqrt(k), "table" = lr_by_workers[k].
  std::string scaling = "none";
  std::map<int64_t, double> lr_by_workers;
  // Linear warm-up to the scaled lr. Length: "epochs" x warmup_epochs (0: none); "log2_workers": log2(k) epochs;
  // "worker_epochs": k x warmup_epochs; "linear_steps": warmup_steps. Or "exponential" over warmup_steps:
  // warmup_factor ^ ((W - t) / W) of the scaled lr.
  std::string warmup = "none";
  double warmup_epochs = 0;
  int64_t warmup_steps = 0;
  std::string warmup_from = "lr";  // where a linear one begins: lr | zero
  double warmup_factor = 0;
  // "constant" | "multistep" (milestones in epochs, factor) | "fractions" (of all steps, factor) | "plateau" (factor,
  // patience, threshold, floor as a fraction of the start) | "inverse_sqrt" (alpha / sqrt(t)) |
  // "inverse_sqrt_after_warmup" (sqrt(W / t)).
  std::string decay = "constant";
  std::vector<double> milestones;
  std::vector<double> fractions;
  double factor = 0;
  int64_t patience = 0;
  double threshold = 0;
  double floor = 0;
  bool by_length = false;  // times the relative length of the step's sequences
  bool operator==(const ScheduleSpec&) const = default;
};

struct EvaluationSpec {
  // Epoch ends are evaluated when `every_epoch`; beside them at most one of the other two is positive.
  bool every_epoch = true;
  int64_t every_samples = 0;         // global training samples
  double every_fraction = 0;         // of an epoch (and at its end)
  std::vector<std::string> metrics;  // catalog of metrics/, first is the primary one; holds the goal's
  bool operator==(const EvaluationSpec&) const = default;
};

// How translations are searched for (train/beam_search.h). Sum of the log-probabilities of Y, its end included, divided
// by lp(Y), plus the coverage penalty.
struct DecodingSpec {
  int64_t beam = 0;  // hypotheses per sentence; 1: greedy; 0: nothing is translated, and the table is not there
  // "wu": ((5 + |Y|) / 6)^length_exponent (Wu et al. 2016, equation 14); "power": |Y|^length_exponent (fairseq)
  std::string length_penalty = "wu";
  double length_exponent = 0;
  double coverage_penalty = 0;  // beta of the same equation: needs a model with one attention
  // A hypothesis has at least min_length tokens without its end, and at most length_ratio * source tokens +
  // length_extra, where that is not less.
  int64_t min_length = 0;
  double length_ratio = 0;
  int64_t length_extra = 0;
  int64_t n_best = 1;  // of each sentence, how many are written to the run's folder
  bool operator==(const DecodingSpec&) const = default;
};
inline constexpr std::string_view kLengthPenalties[] = {"wu", "power"};

struct TaskSpec {
  std::string name;  // "fashion-mnist", "1a"
  std::string title;
  std::string rules;                  // "2018", "2021" or "" when the task has no rule sets
  std::vector<std::string> variants;  // official choices, first is the default; may be empty
  std::string variant;                // chosen
  std::vector<int64_t> workers;       // official K list
  DataSpec data;
  ModelSpec model;
  std::string loss;            // "cross_entropy"
  double label_smoothing = 0;  // of a loss over tokens (models::LossSpec)
  // Per worker, of one micro-batch: samples, columns, sentences, or tokens with padding. Where global_batch is given, a
  // worker's share of that is cut into as many micro-batches as that takes.
  int64_t batch_size = 0;
  int64_t global_batch = 0;  // sentences or tokens of a step, of all workers; 0: batch_size * workers
  // What a step's sum of losses is divided by: the "weight" of the global batch, so that ranks sum to its mean;
  // "weight_after_sum", the same, but the gradient is divided behind the sum over ranks, so that the loss scale meets
  // the undivided sum (task 4b); or "local_samples", each rank's own number of sentences, so that ranks sum to k times
  // as much (task 4a).
  std::string loss_divisor = "weight";
  double epochs = 0;
  std::string precision = "float32";  // float32 (without TF32) | tf32 | bf16 | fp16
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  EvaluationSpec evaluation;
  DecodingSpec decoding;
  GoalSpec goal;
  double max_time_s = 0;  // limits.max_time_s, what `--max-time official` means; 0: the rules name no time
  bool operator==(const TaskSpec&) const = default;
};

inline constexpr std::string_view kBatchings[] = {"samples", "columns", "sentences", "tokens"};
inline constexpr std::string_view kLossDivisors[] = {"weight", "weight_after_sum", "local_samples"};
inline constexpr std::string_view kPrecisions[] = {"float32", "tf32", "bf16", "fp16"};
inline constexpr std::string_view kScalings[] = {"none", "linear", "sqrt", "table"};
inline constexpr std::string_view kWarmups[] = {"none",          "epochs",       "log2_workers",
                                                "worker_epochs", "linear_steps", "exponential"};
inline constexpr std::string_view kWarmupStarts[] = {"lr", "zero"};
inline constexpr std::string_view kDecays[] = {"constant", "multistep",    "fractions",
                                               "plateau",  "inverse_sqrt", "inverse_sqrt_after_warmup"};

// How the gradient travels and what is drawn, not what is computed: recorded, but outside of the task's hash. An
// override of these keys leaves a run closed and may be given for every task (decoding.n_best: that translates).
inline constexpr std::string_view kOutsideHash[] = {"optimizer.by_layer", "optimizer.bucket_mb", "optimizer.overlap",
                                                    "decoding.n_best", "goal.target_loss"};

// One `--set key=value`: dotted path into the task, value as TOML ("0.1", "true", "\"text\"") or a bare word. The path
// must exist in the task's canonical form, so that a misspelt one is an error. What identifies the task (name, title,
// rules, variants, variant, workers) and its limits cannot be set. Setting model.name or optimizer.name drops the
// options of the old one, and any option may then be given.
struct Override {
  std::string key;
  std::string value;
  bool operator==(const Override&) const = default;
};
template <typename V, Either<Override> T>
void describe(V& v, T& setting) {
  v.field("key", setting.key);
  v.field("value", setting.value);
}

struct FrozenTask {
  TaskSpec task;
  Json canonical;  // complete, defaults filled in, overrides applied
  // hash_of (task_hash.h) the canonical form *without* overrides: equal hashes mean the same computation by the same
  // rules (ResNet-20 and -56 differ). Comments, order and spelling of numbers (1 or 1.0) in the file don't matter.
  std::string hash;
  bool open = false;  // any override but those of kOutsideHash
  bool operator==(const FrozenTask&) const = default;
};

// A task file as shipped or as given by path.
struct TaskSource {
  std::string name;  // "fashion-mnist.toml"
  std::string_view text;
};

// Whether the key is one of kOutsideHash: such an override leaves a run as closed as it is.
bool outside_hash(const Override& setting);

// "key=value" as given on the command line. UserError when it has no '=' or no key.
Override parse_override(const std::string& text);

// All tasks that are built in, in file-name order.
std::vector<TaskSource> embedded_tasks();

// What --task takes by name: each of them once, whatever its rule sets, and before them 0a (collectives.h), which
// trains nothing and has no file.
struct TaskName {
  std::string name, title;
};
std::vector<TaskName> task_names();

// Parses, applies the variant and overrides, checks every key and value. UserError with
// "FILE:LINE:COLUMN: what was given, what was expected, valid choices" (a misspelt key is an error, with the nearest
// valid ones); where an override is at fault, with "--set KEY=VALUE: ...". `variant` empty: the first official one.
FrozenTask parse_task(const TaskSource& source, const std::string& variant, const std::vector<Override>& overrides);

// The embedded task of that name and rule set ("" = newest). UserError listing the valid choices; for 0a, which is none
// of them, what to type.
FrozenTask find_task(const std::string& name, const std::string& rules, const std::string& variant,
                     const std::vector<Override>& overrides);

// The canonical form: every key, defaults filled in.
Json to_json(const TaskSpec& task);
// Exact inverse (a run folder's spec.json). UserError "task: ..." naming the wrong field.
TaskSpec task_from_json(const Json& canonical);

}  // namespace mlbench::spec
