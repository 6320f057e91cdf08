#pragma once

// A benchmark task as data: what is computed, on what data, until when. Each task and rule set is a self-contained TOML
// file (tasks/*.toml, embedded into both programs), which is read, checked, frozen to canonical JSON and hashed.
//
// The keys of a file are the members below; a nested structure is a table: optimizer.lr, schedule.decay. Options of the
// model and the optimizer stand beside the named keys of their table (optimizer.momentum). The code of the model or
// optimizer checks their names and values. An official variant may have a table [variant.NAME] with what it changes, in
// the same structure.

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
  int64_t classes = 0;                // number of classes; for text the size of the vocabulary with padding
  // Transforms of training and of evaluation samples, in order: "scale_255", "normalise", "pad_crop_flip" ...
  std::vector<std::string> train_transform;
  std::vector<std::string> eval_transform;
  std::vector<double> mean, stddev;  // per channel, for "normalise"; empty otherwise
  int64_t pad = 4;                   // zeros on each side of an image, for "pad_crop_flip"
  // What batches consist of (data/plan.h): "samples" of one shape | "columns" of one text | "sentences", a number of
  // sentences with their translations | "tokens", such sentences up to a number of tokens.
  std::string batching = "samples";
  // For "columns": a step takes max(5, N(m, bptt_deviation)) positions; m is bptt / 2 with probability
  // short_probability, else bptt.
  int64_t bptt = 0;
  double bptt_deviation = 0;
  double short_probability = 0;
  double holdout = 0;            // share of the training set that is not trained on, and evaluated in place of "test"
  int64_t evaluation_batch = 0;  // at a time; 0: 250 samples, 10 columns, 64 sentences
  // The longest sentence and translation in tokens, without the end token; 0: any length. Longer pairs are left out of
  // training; in evaluations they are cut.
  int64_t max_length = 0;
  int64_t evaluation_max_length = 0;
  int64_t length_multiple = 1;  // sentences are padded to a multiple of this length
  bool operator==(const DataSpec&) const = default;
};

struct ModelSpec {
  std::string name;               // neutral description in models/, e.g. "mnist-cnn"
  Json options = Json::object();  // options of the description, e.g. {"dropout": 0.4}
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
  // The learning rate for k workers: "none" = lr, "linear" = lr * k, "sqrt" = lr * sqrt(k), "table" = lr_by_workers[k].
  std::string scaling = "none";
  std::map<int64_t, double> lr_by_workers;
  // The warm-up to the scaled lr. It is linear over warmup_epochs epochs ("epochs"), log2(k) epochs ("log2_workers"), k
  // * warmup_epochs epochs ("worker_epochs") or warmup_steps steps ("linear_steps"); or "exponential" over W =
  // warmup_steps steps, with warmup_factor ^ ((W - t) / W) of the scaled lr in step t.
  std::string warmup = "none";
  double warmup_epochs = 0;
  int64_t warmup_steps = 0;
  std::string warmup_from = "lr";  // where a linear warm-up begins: lr | zero
  double warmup_factor = 0;
  // One of kDecays (schedule/schedule.h): "multistep" takes milestones and factor, "piecewise" milestones and
  // factors, "fractions" fractions of all steps and factor, "plateau" factor, patience, threshold and floor, "cosine"
  // floor, "polynomial" power and floor, "stable_decay" one fraction and floor, "one_cycle" one fraction, factor and
  // floor, "inverse_time" shift.
  std::string decay = "constant";
  std::vector<double> milestones;
  // What milestones count: "epochs", or "steps_of_workers", steps of all workers together, so that milestone m is
  // reached at step floor(m / k).
  std::string milestone_unit = "epochs";
  std::vector<double> fractions;
  double factor = 0;
  std::vector<double> factors;
  double power = 1;
  double shift = 1;
  int64_t patience = 0;
  double threshold = 0;
  double floor = 0;
  bool by_length = false;  // the rate is multiplied by the relative length of the step's sequences
  // How many trials the values of optimizer and schedule were chosen from (`mlbench tune` says it); 0: they were not
  // tuned. Nothing is computed from it.
  int64_t tuned_trials = 0;
  bool operator==(const ScheduleSpec&) const = default;
};

struct EvaluationSpec {
  // When to evaluate: at the ends of epochs, and at most one of the other two.
  bool every_epoch = true;
  int64_t every_samples = 0;         // training samples of all workers; 0: not by samples
  double every_fraction = 0;         // of an epoch, and at its end; 0: not by fractions
  std::vector<std::string> metrics;  // from the catalog of metrics/, the primary one first, the goal's among them
  bool operator==(const EvaluationSpec&) const = default;
};

// How translations are searched for (train/beam_search.h). The score of a hypothesis Y is the sum of the
// log-probabilities of its tokens, with the end, over lp(Y), plus the coverage penalty.
struct DecodingSpec {
  int64_t beam = 0;  // hypotheses per sentence; 1: greedy; 0: nothing is translated, and the file has no such table
  // lp(Y). "wu": ((5 + |Y|) / 6)^length_exponent (Wu et al. 2016, equation 14); "power": |Y|^length_exponent (fairseq)
  std::string length_penalty = "wu";
  double length_exponent = 0;
  double coverage_penalty = 0;  // beta of the same equation; needs a model with one attention
  // A hypothesis has at least min_length tokens without the end, and at most length_ratio * source tokens +
  // length_extra tokens or, if that is more, min_length.
  int64_t min_length = 0;
  double length_ratio = 0;
  int64_t length_extra = 0;
  int64_t n_best = 1;  // how many translations of each sentence are written to the run's folder
  bool operator==(const DecodingSpec&) const = default;
};
inline constexpr std::string_view kLengthPenalties[] = {"wu", "power"};

struct TaskSpec {
  std::string name;  // "fashion-mnist", "1a"
  std::string title;
  std::string rules;                  // "2018", "2021" or "" when the task has no rule sets
  std::vector<std::string> variants;  // official choices, the default first; may be empty
  std::string variant;                // the chosen one
  std::vector<int64_t> workers;       // official worker counts
  DataSpec data;
  ModelSpec model;
  std::string loss;            // "cross_entropy"
  double label_smoothing = 0;  // of a loss over tokens (models::LossSpec)
  // The size of a worker's micro-batch: samples, columns, sentences, or tokens with padding. With a global_batch, a
  // worker's share of it is cut into as many micro-batches as needed.
  int64_t batch_size = 0;
  // What k workers change: "none", or "linear", with which a worker's batch has batch_size * k samples, and the task
  // epochs * k epochs. The number of steps then falls with k, as with "none".
  std::string batch_scaling = "none";
  int64_t global_batch = 0;  // samples, sentences or tokens in a step of all workers; 0: that of a worker times workers
  // By what a step's sum of losses is divided. "weight": that of the global batch, so that the sum over ranks is its
  // mean. "weight_after_sum": the same, but the gradient is divided after the sum over ranks, so that the loss scale
  // applies to the undivided sum (task 4b). "local_samples": each rank's own number of sentences, so that the sum over
  // k ranks is k times as much (task 4a).
  std::string loss_divisor = "weight";
  double epochs = 0;
  std::string precision = "float32";  // float32 (without TF32) | tf32 | bf16 | fp16
  // The framework of runs that choose none, where it works; "": the usual one. It is no part of the hash.
  std::string framework;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  EvaluationSpec evaluation;
  DecodingSpec decoding;
  GoalSpec goal;
  double max_time_s = 0;  // key limits.max_time_s: what `--max-time official` means; 0: the rules name no time
  bool operator==(const TaskSpec&) const = default;
};

inline constexpr std::string_view kBatchScalings[] = {"none", "linear"};
inline constexpr std::string_view kBatchings[] = {"samples", "columns", "sentences", "tokens"};
inline constexpr std::string_view kLossDivisors[] = {"weight", "weight_after_sum", "local_samples"};
inline constexpr std::string_view kPrecisions[] = {"float32", "tf32", "bf16", "fp16"};
inline constexpr std::string_view kScalings[] = {"none", "linear", "sqrt", "table"};
inline constexpr std::string_view kWarmups[] = {"none",          "epochs",       "log2_workers",
                                                "worker_epochs", "linear_steps", "exponential"};
inline constexpr std::string_view kWarmupStarts[] = {"lr", "zero"};
inline constexpr std::string_view kMilestoneUnits[] = {"epochs", "steps_of_workers"};
inline constexpr std::string_view kDecays[] = {
    "constant", "multistep",  "piecewise",    "fractions", "plateau",     "inverse_sqrt", "inverse_sqrt_after_warmup",
    "cosine",   "polynomial", "stable_decay", "one_cycle", "inverse_time"};

// Keys that decide how the gradient travels, what is written or what is drawn, but not what is computed. They are
// recorded, but are no part of the task's hash. An override of them leaves a run closed and may be given for every task
// (decoding.n_best only for tasks that translate).
inline constexpr std::string_view kOutsideHash[] = {"optimizer.by_layer", "optimizer.bucket_mb",
                                                    "optimizer.overlap",  "decoding.n_best",
                                                    "goal.target_loss",   "schedule.tuned_trials"};

// One `--set KEY=VALUE`: a dotted path into the task, and a value as TOML ("0.1", "true", "\"text\"") or a bare word.
// The path must exist in the task's canonical form, so that a misspelt key is an error. Keys that identify the task
// (name, title, rules, variants, variant, workers), its limits and its framework cannot be set. Setting model.name or
// optimizer.name drops the options of the old model or optimizer; any option may then be given.
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
  Json canonical;  // complete: defaults are filled in, overrides are applied
  // hash_of() (task_hash.h) of the canonical form *without* overrides. Equal hashes mean the same computation by the
  // same rules (ResNet-20 and -56 differ). Comments, order and spelling of numbers (1 or 1.0) do not matter.
  std::string hash;
  bool open = false;  // there is an override of a key that is none of kOutsideHash
  bool operator==(const FrozenTask&) const = default;
};

// The text of a task file, built in or given by its path.
struct TaskSource {
  std::string name;  // "fashion-mnist.toml"
  std::string_view text;
};

// Whether the key is one of kOutsideHash, so that the override does not open a run.
bool outside_hash(const Override& setting);

// Reads "KEY=VALUE" of the command line. Throws UserError when it has no '=' or no key, or is too long.
Override parse_override(const std::string& text);

// The files of all tasks that are built in, in the order of their names.
std::vector<TaskSource> embedded_tasks();

// A name that --task takes.
struct TaskName {
  std::string name, title;
};
// All such names: first 0a (collectives.h), which trains nothing and has no file, then each task that is built in, once
// for all its rule sets.
std::vector<TaskName> task_names();

// Parses a task file, applies the variant ("": the first official one) and overrides, and checks every key and value.
// Throws UserError "FILE:LINE:COLUMN: ..." with what was given, what was expected and the valid choices; a misspelt key
// is an error, too. Where an override is at fault, the message begins with "--set KEY=VALUE: ".
FrozenTask parse_task(const TaskSource& source, const std::string& variant, const std::vector<Override>& overrides);

// The task that is built in with that name and rule set ("": the newest). Throws UserError with the valid choices; for
// 0a, which has no file, with what to type.
FrozenTask find_task(const std::string& name, const std::string& rules, const std::string& variant,
                     const std::vector<Override>& overrides);

// The canonical form: every key with its value, but no `decoding` for tasks that do not translate, no goal.target_loss
// of 0, and no `framework` where the task names none.
Json to_json(const TaskSpec& task);
// The exact inverse, for spec.json of a run. Throws UserError "task: ..." naming the wrong field.
TaskSpec task_from_json(const Json& canonical);

}  // namespace mlbench::spec
