#include "mlbench/spec/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "mlbench/base/choices.h"
#include "mlbench/base/embedded_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/shape.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/goal_option.h"
#include "mlbench/spec/loss.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/schedule_fields.h"
#include "mlbench/spec/split.h"
#include "mlbench/spec/task_hash.h"
#include "mlbench/spec/toml_document.h"

namespace mlbench {
std::span<const EmbeddedFile> embedded_task_files();  // made by mlbench_embed()
}

namespace mlbench::spec {

namespace {

constexpr std::string_view kIdentity[] = {"name",    "title",   "rules",  "variants",
                                          "variant", "workers", "limits", "framework"};
constexpr std::string_view kTablesWithOptions[] = {"model", "optimizer"};

// ---- the fields of a task -------------------------------------------------------------------------------------------

// With these ranges, products stay below 2^63: samples of an epoch times epochs, a batch times workers.
constexpr Range kWorkerRange{1, kMostWorkers}, kExtentRange{1, 1e9}, kClassRange{1, 1e7}, kBatchRange{1, 1e8};
constexpr Range kEpochRange{1e-6, 1e7}, kRateRange{1e-12, 1e6};
constexpr Range kSmoothingRange{0, 0.99}, kFractionRange{0, 1}, kSampleRange{0, 1e15};
constexpr Range kPixelRange{-1e6, 1e6}, kDeviationRange{1e-6, 1e6}, kLossRange{0, 1e9};
constexpr Range kLengthRange{0, 1e6}, kMultipleRange{1, 1024}, kBatchOrNoneRange{0, 1e8};
constexpr Range kHoldoutRange{0, 0.9}, kPadRange{0, 1e4};
constexpr double kMostSampleVolume = 1e9;

template <typename V, typename Task>
void describe_task(V& v, Task& task) {
  v.field("name", task.name, kRequired);
  v.field("title", task.title, kRequired);
  v.field("rules", task.rules);
  v.field("variants", task.variants);
  v.field("variant", task.variant);
  v.field("workers", task.workers, {.required = true, .range = kWorkerRange});
  v.table("data", [&] {
    auto& data = task.data;
    v.field("name", data.name, kRequired);
    v.field("sample_shape", data.sample_shape, {.required = true, .range = kExtentRange});
    v.field("classes", data.classes, {.required = true, .range = kClassRange});
    v.field("train_transform", data.train_transform);
    v.field("eval_transform", data.eval_transform);
    v.field("mean", data.mean, {.range = kPixelRange});
    v.field("stddev", data.stddev, {.range = kDeviationRange});
    v.field("pad", data.pad, {.range = kPadRange});
    v.field("batching", data.batching, {.choices = kBatchings});
    v.field("bptt", data.bptt, {.range = kLengthRange});
    v.field("bptt_deviation", data.bptt_deviation, {.range = kLengthRange});
    v.field("short_probability", data.short_probability, {.range = kFractionRange});
    v.field("holdout", data.holdout, {.range = kHoldoutRange});
    v.field("evaluation_batch", data.evaluation_batch, {.range = kBatchOrNoneRange});
    v.field("max_length", data.max_length, {.range = kLengthRange});
    v.field("evaluation_max_length", data.evaluation_max_length, {.range = kLengthRange});
    v.field("length_multiple", data.length_multiple, {.range = kMultipleRange});
  });
  v.table("model", [&] {
    v.field("name", task.model.name, kRequired);
    v.rest(task.model.options);
  });
  v.field("loss", task.loss, kRequired);
  v.field("label_smoothing", task.label_smoothing, {.range = kSmoothingRange});
  v.field("batch_size", task.batch_size, {.required = true, .range = kBatchRange});
  v.field("batch_scaling", task.batch_scaling, {.choices = kBatchScalings});
  v.field("global_batch", task.global_batch, {.range = kBatchOrNoneRange});
  v.field("loss_divisor", task.loss_divisor, {.choices = kLossDivisors});
  v.field("epochs", task.epochs, {.required = true, .range = kEpochRange});
  v.field("precision", task.precision, {.choices = kPrecisions});
  v.field("framework", task.framework);
  v.table("optimizer", [&] {
    v.field("name", task.optimizer.name, kRequired);
    v.field("lr", task.optimizer.lr, {.required = true, .range = kRateRange});
    v.rest(task.optimizer.options);
  });
  v.table("schedule", [&] { describe_schedule(v, task.schedule); });
  v.table("evaluation", [&] {
    auto& evaluation = task.evaluation;
    v.field("every_epoch", evaluation.every_epoch);
    v.field("every_samples", evaluation.every_samples, {.range = kSampleRange});
    v.field("every_fraction", evaluation.every_fraction, {.range = kFractionRange});
    v.field("metrics", evaluation.metrics, kRequired);
  });
  v.table("decoding", [&] {
    auto& decoding = task.decoding;
    constexpr Range kPenaltyRange{0, 100};
    v.field("beam", decoding.beam, {.range = Range{0, 1000}});
    v.field("length_penalty", decoding.length_penalty, {.choices = kLengthPenalties});
    v.field("length_exponent", decoding.length_exponent, {.range = kPenaltyRange});
    v.field("coverage_penalty", decoding.coverage_penalty, {.range = kPenaltyRange});
    v.field("min_length", decoding.min_length, {.range = Range{0, 1000}});
    v.field("length_ratio", decoding.length_ratio, {.range = kPenaltyRange});
    v.field("length_extra", decoding.length_extra, {.range = Range{0, 1e6}});
    v.field("n_best", decoding.n_best, {.range = Range{1, 1000}});
  });
  v.table("goal", [&] {
    auto& goal = task.goal;
    v.field("metric", goal.metric, kRequired);
    v.field("split", goal.split, {.choices = kSplits});
    v.field("target", goal.target, {.required = true, .range = kGoalRange});
    v.field("light_target", goal.light_target, {.required = true, .range = kGoalRange});
    v.field("higher_is_better", goal.higher_is_better);
    v.field("target_loss", goal.target_loss, {.range = kLossRange});
  });
  const Range time_range = run_option(&RunOptions::max_time).range;
  v.table("limits", [&] { v.field("max_time_s", task.max_time_s, {.range = Range{0, time_range.most}}); });
}

// Checks how batches are made from the data. `require(right, path, text)` throws UserError where `right` is false.
template <typename Require>
void check_batching(const TaskSpec& task, const Require& require) {
  const DataSpec& data = task.data;
  const bool samples = data.batching == "samples", columns = data.batching == "columns";
  require(samples != data.sample_shape.empty(), "data.sample_shape",
          samples ? "must list the extents of a sample"
                  : fmt::format("must be empty: 'data.batching' is \"{}\"", data.batching));
  const double volume = unchecked_volume_of(data.sample_shape);
  require(volume <= kMostSampleVolume, "data.sample_shape",
          fmt::format("is a sample of {:g} values; expected at most {:g}", volume, kMostSampleVolume));
  require(data.mean.size() == data.stddev.size(), "data.stddev",
          fmt::format("has {} values, 'data.mean' has {}", data.stddev.size(), data.mean.size()));
  require(!columns || data.bptt >= 5, "data.bptt",
          fmt::format("is {}; expected at least 5 positions: 'data.batching' is \"columns\"", data.bptt));
  require(!columns || task.global_batch == 0, "global_batch",
          fmt::format("is {}; expected 0, batch_size * workers: 'data.batching' is \"{}\"", task.global_batch,
                      data.batching));
  if (samples || columns) {
    require(task.loss_divisor == "weight", "loss_divisor",
            fmt::format("is \"{}\"; expected \"weight\": 'data.batching' is \"{}\"", task.loss_divisor, data.batching));
  }
  if (task.batch_scaling != "none") {
    require(samples && task.global_batch == 0, "batch_scaling",
            fmt::format("is \"{}\"; expected \"none\": 'data.batching' is \"{}\", and 'global_batch' is {}",
                        task.batch_scaling, data.batching, task.global_batch));
    constexpr double kMost = kEpochRange.most / kMostWorkers;
    require(task.epochs <= kMost, "epochs",
            fmt::format("is {}; expected at most {}: they grow with the workers", task.epochs, kMost));
  }
  require(data.batching != "tokens" || task.global_batch == 0 || task.global_batch >= task.batch_size, "global_batch",
          fmt::format("is {} tokens, less than the {} of one micro-batch, 'batch_size'", task.global_batch,
                      task.batch_size));
}

// Checks conditions between several fields.
void check_relations(const TaskSpec& task, const FieldReader& reader) {
  const auto require = [&](bool right, const char* path, const std::string& text) {
    if (!right) reader.fail(path, fmt::format("'{}' {}", path, text));
  };

  require(!task.workers.empty(), "workers", "must list the official numbers of workers");
  check_batching(task, require);

  require(task.label_smoothing == 0 || loss_kind(task.loss).over_tokens, "label_smoothing",
          fmt::format("is {}, but 'loss' is \"{}\"; expected 0, or the loss \"token_cross_entropy\"",
                      task.label_smoothing, task.loss));

  check_schedule(task.schedule, reader);

  const EvaluationSpec& evaluation = task.evaluation;
  require(evaluation.every_samples == 0 || evaluation.every_fraction == 0, "evaluation.every_fraction",
          "and 'evaluation.every_samples' exclude each other");
  require(evaluation.every_epoch || evaluation.every_samples > 0 || evaluation.every_fraction > 0,
          "evaluation.every_epoch", "is false, and neither 'every_samples' nor 'every_fraction' is given");

  const DecodingSpec& decoding = task.decoding;
  if (decoding.beam == 0) {
    require(decoding == DecodingSpec{}, "decoding.beam",
            "is 0: nothing is translated, and the table says nothing else");
  } else {
    require(decoding.length_ratio > 0 || decoding.length_extra > 0, "decoding.length_extra",
            "and 'decoding.length_ratio' are 0: expected how long a translation may be");
    require(decoding.n_best <= decoding.beam, "decoding.n_best",
            fmt::format("is {}; expected at most 'decoding.beam', {}", decoding.n_best, decoding.beam));
  }

  const GoalSpec& goal = task.goal;
  require(std::find(evaluation.metrics.begin(), evaluation.metrics.end(), goal.metric) != evaluation.metrics.end(),
          "goal.metric", fmt::format("is \"{}\"{}", goal.metric, valid_text(goal.metric, evaluation.metrics)));
  if (const auto higher = higher_is_better(goal.metric)) {
    require(goal.higher_is_better == *higher, "goal.higher_is_better",
            fmt::format("is {}; expected {}: of '{}' the {} value is better", goal.higher_is_better, *higher,
                        goal.metric, *higher ? "higher" : "lower"));
  }
  require(goal.higher_is_better ? goal.light_target <= goal.target : goal.light_target >= goal.target,
          "goal.light_target",
          fmt::format("is {}: harder to reach than 'goal.target', {}", goal.light_target, goal.target));
}

TaskSpec read_task(const Json& object, const Locator& locate) {
  TaskSpec task;
  FieldReader reader(object, locate);
  describe_task(reader, task);
  reader.finish();
  task.optimizer = with_names_of_ours(std::move(task.optimizer));
  check_relations(task, reader);
  return task;
}

// ---- variants -------------------------------------------------------------------------------------------------------

// Replaces values of `target`, which is at `path`, by those of `changes`, which is at `from`. Also takes over their
// places in the file.
void merge(TomlDocument& document, Json& target, const std::string& path, const Json& changes,
           const std::string& from) {
  for (const auto& [key, value] : changes.items()) {
    const std::string to = join_path(path, key);
    const std::string origin = join_path(from, key);
    document.places[to] = document.places.at(origin);
    if (value.is_object() && target.contains(key) && target[key].is_object()) {
      merge(document, target[key], to, value, origin);
      continue;
    }
    target[key] = value;
    for (auto it = document.places.lower_bound(origin + "."); it != document.places.end(); ++it) {
      if (!it->first.starts_with(origin + ".")) break;
      document.places[to + it->first.substr(origin.size())] = it->second;
    }
  }
}

// Takes the tables of the variants out of the document, merges that of the chosen variant, and sets "variant".
void apply_variant(TomlDocument& document, const std::string& wanted) {
  Json& root = document.root;
  std::vector<std::string> names;
  if (const auto found = root.find("variants"); found != root.end() && found->is_array()) {
    for (const Json& name : *found) {
      if (name.is_string()) names.push_back(name.get<std::string>());  // other types: reported by the reader
    }
  }
  Json changes = Json::object();
  if (const auto found = root.find("variant"); found != root.end()) {
    if (!found->is_object()) {
      throw UserError(document.locate("variant", Part::kValue) + ": 'variant' is " + describe_value(*found) +
                      "; expected tables [variant.NAME] with what each variant changes");
    }
    changes = *found;
    root.erase("variant");
  }
  for (const auto& [name, table] : changes.items()) {
    const std::string path = "variant." + name;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UserError(document.locate(path, Part::kKey) + ": " + unknown_text("variant", name, names));
    }
    if (!table.is_object()) {
      throw UserError(document.locate(path, Part::kValue) + ": '" + path + "' is " + describe_value(table) +
                      "; expected a table");
    }
  }
  if (names.empty() && wanted.empty()) return;
  const std::string chosen = wanted.empty() ? names.front() : wanted;
  if (std::find(names.begin(), names.end(), chosen) == names.end()) {
    throw UserError(document.file + ": " + unknown_text("variant", chosen, names));
  }
  if (changes.contains(chosen)) merge(document, root, "", changes[chosen], "variant." + chosen);
  root["variant"] = chosen;
}

// ---- overrides ------------------------------------------------------------------------------------------------------

std::string flag_of(const Override& setting) {
  const std::string flag = "--set " + setting.key + "=" + setting.value;
  return flag.size() <= 200 ? flag : flag.substr(0, 200) + "...";
}

// Reads the value as TOML; a value that is none is a bare word.
Json parse_value(const Override& setting) {
  const std::string where = flag_of(setting);
  try {
    TomlDocument document = read_toml(where, "v = " + setting.value, inputs::kSetting);
    if (document.root.size() == 1) return document.root["v"];
  } catch (const UserError& error) {
    if (setting.value.find_first_of("[]{}\"'\n") != std::string::npos) {
      throw UserError(where + ": not a TOML value such as 0.1, true, text or [\"a\", \"b\"]");
    }
  }
  return setting.value;
}

// A choice of the overrides that decides which options a table has.
struct Chooser {
  std::string_view key;
  std::string_view table;
  bool replaces;  // the options that the task's own choice has go
};
constexpr Chooser kChoosers[] = {{"model.name", "model", true},
                                 {"optimizer.name", "optimizer", true},
                                 {"optimizer.rule", "optimizer", true},
                                 {"optimizer.compression", "optimizer", false},
                                 {"optimizer.pattern", "optimizer", false}};

// The keys of the table at `path` that may be set: those that it has, and those that every task may be given.
std::vector<std::string> valid_keys(const Json& table, const std::string& path) {
  std::set<std::string> keys;
  for (const auto& [key, value] : table.items()) {
    if (!path.empty() || std::ranges::count(kIdentity, key) == 0) keys.insert(key);
  }
  const auto add = [&](std::string_view key) {
    if (const size_t dot = key.rfind('.'); key.substr(0, dot) == path) keys.emplace(key.substr(dot + 1));
  };
  for (const Chooser& chooser : kChoosers) add(chooser.key);
  for (const std::string_view key : kOutsideHash) add(key);
  return {keys.begin(), keys.end()};
}

// Applies one override. `chosen` are the tables with such a choice: their options may be others than the task's.
void apply_override(Json& canonical, const Override& setting, const std::set<std::string>& chosen) {
  const Json value = parse_value(setting);
  Json* target = &canonical;
  std::string path;
  size_t start = 0;
  for (;;) {
    const size_t dot = setting.key.find('.', start);
    const std::string key = setting.key.substr(start, dot == std::string::npos ? dot : dot - start);
    const bool last = dot == std::string::npos;
    const bool free = last && (chosen.contains(path) || path == "schedule.lr_by_workers" || outside_hash(setting));
    if (!target->is_object()) {
      throw UserError(fmt::format("{}: '{}' is {}, not a table", flag_of(setting), path, describe_value(*target)));
    }
    if (!target->contains(key) && !(free && !key.empty())) {
      throw UserError(fmt::format("{}: unknown key '{}' of {}{}", flag_of(setting), key,
                                  path.empty() ? "the task" : "'" + path + "'",
                                  valid_text(key, valid_keys(*target, path))));
    }
    if (last) {
      Json& old = (*target)[key];
      // The reader checks the types of named keys. Options have no type but that of the task's own value.
      const bool option = std::ranges::count(kTablesWithOptions, path) > 0 && !chosen.contains(path);
      const bool same_kind = old.type() == value.type() || (old.is_number() && value.is_number());
      if (option && !old.is_null() && !same_kind) {
        throw UserError(fmt::format("{}: '{}' is {}; expected the same type as the task's value, {}", flag_of(setting),
                                    setting.key, describe_value(value), describe_value(old)));
      }
      old = value;
      return;
    }
    target = &(*target)[key];
    path = join_path(path, key);
    start = dot + 1;
  }
}

Json apply_overrides(Json canonical, const std::vector<Override>& overrides) {
  std::set<std::string> chosen, replaced;
  for (const Override& setting : overrides) {
    const std::string root = setting.key.substr(0, setting.key.find('.'));
    if (std::ranges::count(kIdentity, root) > 0) {
      throw UserError(flag_of(setting) + ": '" + root + "' identifies the task and cannot be set" +
                      (root == "variant"     ? "; choose with --variant"
                       : root == "limits"    ? "; choose with --max-time"
                       : root == "framework" ? "; choose with --framework"
                                             : ""));
    }
    for (const Chooser& chooser : kChoosers) {
      if (setting.key != chooser.key) continue;
      chosen.emplace(chooser.table);
      if (chooser.replaces) replaced.emplace(chooser.table);
    }
  }
  for (const std::string& table : replaced) {
    Json kept = Json::object();
    for (const char* key : {"name", "lr"}) {
      if (canonical[table].contains(key)) kept[key] = canonical[table][key];
    }
    canonical[table] = std::move(kept);
  }
  for (const Override& setting : overrides) apply_override(canonical, setting, chosen);
  return canonical;
}

}  // namespace

// ---- the interface --------------------------------------------------------------------------------------------------

bool outside_hash(const Override& setting) {
  return std::find(std::begin(kOutsideHash), std::end(kOutsideHash), setting.key) != std::end(kOutsideHash);
}

Override parse_override(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError("--set " + text.substr(0, 200) + ": expected KEY=VALUE such as optimizer.lr=0.1");
  }
  Override setting{text.substr(0, equals), text.substr(equals + 1)};
  if (text.size() > inputs::kSetting.most_bytes) refuse_size(flag_of(setting), text.size(), inputs::kSetting);
  return setting;
}

std::vector<TaskSource> embedded_tasks() {
  std::vector<TaskSource> tasks;
  for (const EmbeddedFile& file : embedded_task_files()) tasks.push_back({std::string(file.name), file.text});
  return tasks;
}

std::vector<TaskName> task_names() {
  std::vector<TaskName> names = {{std::string(kTask0a), std::string(kTask0aTitle)}};
  for (const TaskSource& source : embedded_tasks()) {
    const TaskSpec task = parse_task(source, "", {}).task;
    if (names.back().name != task.name) names.push_back({task.name, task.title});
  }
  return names;
}

FrozenTask parse_task(const TaskSource& source, const std::string& variant, const std::vector<Override>& overrides) {
  TomlDocument document = read_toml(source.name, source.text, inputs::kTaskFile);
  apply_variant(document, variant);
  const auto in_file = [&](const std::string& path, Part part) { return document.locate(path, part); };

  FrozenTask frozen;
  frozen.task = read_task(document.root, in_file);
  frozen.canonical = to_json(frozen.task);
  frozen.hash = hash_of(frozen.canonical);
  if (!overrides.empty()) {
    std::string flags;
    for (const Override& setting : overrides) flags += " " + flag_of(setting);
    const auto in_override = [&](const std::string& path, Part part) {
      for (const Override& setting : overrides) {
        if (path == setting.key || path.starts_with(setting.key + ".")) return flag_of(setting);
      }
      // The file alone is right: an override of another key made this value wrong.
      return in_file(path, part) + " (with" + flags + ")";
    };
    frozen.task = read_task(apply_overrides(frozen.canonical, overrides), in_override);
    frozen.canonical = to_json(frozen.task);
    frozen.open = !std::all_of(overrides.begin(), overrides.end(), outside_hash);
  }
  return frozen;
}

namespace {

// Throws UserError, which also names the tasks whose data set's name begins with `name`.
[[noreturn]] void refuse_unknown_task(const std::string& name) {
  std::set<std::string> with_such_data;
  for (const TaskSource& source : embedded_tasks()) {
    const TaskSpec task = parse_task(source, "", {}).task;
    if (!name.empty() && task.data.name.starts_with(name)) with_such_data.insert(task.name);
  }
  const std::string with_data = fmt::format("; with data {}...: {}", name, fmt::join(with_such_data, ", "));
  throw UserError(unknown_text("task", name, names_of(task_names())) + (with_such_data.empty() ? "" : with_data));
}

}  // namespace

FrozenTask find_task(const std::string& name, const std::string& rules, const std::string& variant,
                     const std::vector<Override>& overrides) {
  if (name == kTask0a) {
    throw UserError(fmt::format(
        "task {} measures all-reduce and trains nothing: it is for 'mlbench run NAME K --task {}'", kTask0a, kTask0a));
  }
  std::map<std::string, TaskSource> by_rules;
  for (const TaskSource& source : embedded_tasks()) {
    const TaskSpec task = parse_task(source, "", {}).task;
    if (task.name == name) by_rules[task.rules] = source;
  }
  if (by_rules.empty()) refuse_unknown_task(name);
  if (rules.empty()) return parse_task(by_rules.rbegin()->second, variant, overrides);
  const auto found = by_rules.find(rules);
  if (found == by_rules.end()) {
    std::vector<std::string> valid;
    by_rules.erase("");  // the rules without a name
    for (const auto& [set, source] : by_rules) valid.push_back(set);
    throw UserError(fmt::format("task '{}': {}", name, unknown_text("rules", rules, valid)));
  }
  return parse_task(found->second, variant, overrides);
}

Json to_json(const TaskSpec& task) {
  Json canonical;
  FieldWriter writer(canonical);
  describe_task(writer, task);
  if (task.goal.target_loss == 0) canonical["goal"].erase("target_loss");  // most tasks have none
  if (task.decoding.beam == 0) canonical.erase("decoding");                // only tasks that translate have it
  if (task.framework.empty()) canonical.erase("framework");                // most tasks leave the choice to the run
  return canonical;
}

TaskSpec task_from_json(const Json& canonical) {
  return read_task(canonical, [](const std::string&, Part) { return std::string("task"); });
}

}  // namespace mlbench::spec
