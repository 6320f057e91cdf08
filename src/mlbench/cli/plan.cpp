#include "mlbench/cli/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/cli/context.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/spec/variables.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

std::vector<int64_t> parse_workers(const std::vector<std::string>& given) {
  std::vector<int64_t> counts;
  for (const std::string& text : given) {
    const int64_t count = parse_count(text, "worker count", 1);
    if (std::find(counts.begin(), counts.end(), count) != counts.end()) {
      throw UserError(fmt::format("worker count {} is given twice: for repeats use --repeat N", count));
    }
    counts.push_back(count);
  }
  if (counts.empty()) throw UserError("no worker count: give at least one, e.g. 'mlbench run NAME 1 2'");
  return counts;
}

double parse_epochs(const std::string& text) {
  double epochs = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), epochs);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(epochs) || epochs <= 0) {
    throw UserError(fmt::format("--max-epochs '{}' is not a number above 0", text));
  }
  return epochs;
}

spec::CheckpointPolicy parse_checkpoint(const std::string& text) {
  spec::CheckpointPolicy policy;
  if (text == "epoch") {
    policy.every_epoch = true;
  } else if (!text.empty()) {
    try {
      policy.every_steps = parse_count(text, "", 1);
    } catch (const UserError&) {
      throw UserError(
          fmt::format("--checkpoint-every '{}' is neither a number of steps of at least 1 nor 'epoch'", text));
    }
  }
  return policy;
}

// `given`, or the default, or the only possible choice; checked against the worker's catalog.
std::string choose(const Json& catalog, const char* table, std::string_view what, const std::string& given,
                   const std::string& usual) {
  const std::vector<std::string> available = available_names(catalog, table);
  if (available.empty())
    throw UserError(fmt::format("this mlbench-worker has no {} that works here: see mlbench list {}", what, table));
  if (given.empty()) {
    const bool has_usual = std::find(available.begin(), available.end(), usual) != available.end();
    return has_usual ? usual : available.front();
  }
  for (const Json& row : catalog.at(table)) {
    if (row.value("name", "") != given || row.value("available", false)) continue;
    throw UserError(fmt::format("{} '{}' is not available here: {}; valid are {}", what, given,
                                row.value("reason", "no reason known"), fmt::join(available, ", ")));
  }
  std::vector<std::string> reasons;
  for (const Json& row : catalog.at(table)) {
    if (!row.value("available", false)) {
      reasons.push_back(fmt::format("{}: {}", row.value("name", ""), row.value("reason", "no reason known")));
    }
  }
  try {
    check_choice(given, what, available);
  } catch (const UserError& error) {
    if (reasons.empty()) throw;
    throw UserError(fmt::format("{} (not available: {})", error.what(), fmt::join(reasons, "; ")));
  }
  return given;
}

spec::FrozenTask freeze(const RunOptions& options, const std::vector<spec::Override>& overrides) {
  if (options.task.empty()) {
    std::vector<std::string> names;
    for (const spec::TaskSource& source : spec::embedded_tasks()) names.push_back(parse_task(source, "", {}).task.name);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    throw UserError(
        fmt::format("no task: give --task TASK; valid are {}, or the path of a task file", fmt::join(names, ", ")));
  }
  if (!options.task.ends_with(".toml")) return spec::find_task(options.task, options.rules, options.variant, overrides);
  if (!options.rules.empty()) throw UserError("--rules chooses among the built-in tasks; a task file is one rule set");
  const std::string text = options.task_text.empty() ? read_file(options.task, inputs::kTaskFile) : options.task_text;
  return spec::parse_task({options.task, text}, options.variant, overrides);
}

}  // namespace

PlanFacts gather_facts(const fs::path& home) {
  PlanFacts facts;
  facts.home = home;
  facts.cores = available_cores();
  for (const auto& row : catalog::executors()) facts.executors.emplace_back(row.name);
  return facts;
}

PlanFacts gather_facts(const fs::path& worker, const fs::path& home) {
  PlanFacts facts = gather_facts(home);
  const auto found = supervise::worker_catalog(worker, facts.home);
  if (!found.catalog) {
    throw UserError(found.reason + ": nothing can run here; build it (-DMLBENCH_WORKER=ON) or set MLBENCH_WORKER");
  }
  facts.catalog = *found.catalog;
  return facts;
}

std::vector<std::string> available_names(const Json& catalog, const char* table) {
  std::vector<std::string> names;
  for (const Json& row : catalog.value(table, Json::array())) {
    if (row.is_string()) names.push_back(row.get<std::string>());
    if (row.is_object() && row.value("available", true)) names.push_back(row.value("name", ""));
  }
  return names;
}

namespace {

// Calls `text`, `list` or `flag` with name and value of each field.
template <typename Options, typename Text, typename List, typename Flag>
void for_each_field(Options& o, const Text& text, const List& list, const Flag& flag) {
  text("name", o.name);
  list("workers", o.workers);
  text("task", o.task);
  list("command", o.command);
  text("image", o.image);
  text("work_dir", o.work_dir);
  list("env", o.environment);
  text("task_text", o.task_text);
  text("rules", o.rules);
  text("variant", o.variant);
  text("framework", o.framework);
  text("backend", o.backend);
  text("executor", o.executor);
  text("data", o.data);
  text("data_dir", o.data_dir);
  list("set", o.overrides);
  text("seed", o.seed);
  text("threads_per_worker", o.threads_per_worker);
  text("repeat", o.repeat);
  text("max_steps", o.max_steps);
  text("max_epochs", o.max_epochs);
  text("max_time", o.max_time);
  text("checkpoint_every", o.checkpoint_every);
  text("comm_timeout", o.comm_timeout);
  flag("light", o.light);
  flag("synthetic", o.synthetic);
  flag("fixed_batch", o.fixed_batch);
  flag("gpu", o.gpu);
  flag("explain", o.explain);
  flag("profile", o.profile);
}

std::string text_of(const Json& value, const std::string& name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  throw UserError(fmt::format("{} is neither text nor a number", name));
}

}  // namespace

Json to_json(const RunOptions& options) {
  Json request = Json::object();
  for_each_field(
      options,
      [&](const char* name, const std::string& value) {
        if (!value.empty()) request[name] = value;
      },
      [&](const char* name, const std::vector<std::string>& values) {
        if (!values.empty()) request[name] = values;
      },
      [&](const char* name, bool value) {
        if (value) request[name] = true;
      });
  return request;
}

RunOptions run_options_from_json(const Json& request) {
  RunOptions options;
  std::vector<std::string> known;
  const auto find = [&](const char* name) {
    known.emplace_back(name);
    const auto found = request.find(name);
    return found == request.end() || found->is_null() ? nullptr : &*found;
  };
  for_each_field(
      options,
      [&](const char* name, std::string& value) {
        if (const Json* found = find(name)) value = text_of(*found, name);
      },
      [&](const char* name, std::vector<std::string>& values) {
        const Json* found = find(name);
        if (found == nullptr) return;
        if (!found->is_array()) throw UserError(fmt::format("{} is no list", name));
        for (const Json& value : *found) values.push_back(text_of(value, name));
      },
      [&](const char* name, bool& value) {
        const Json* found = find(name);
        if (found == nullptr) return;
        if (!found->is_boolean()) throw UserError(fmt::format("{} is neither true nor false", name));
        value = found->get<bool>();
      });
  for (const auto& [name, value] : request.items()) check_choice(name.substr(0, 80), "field", known);
  return options;
}

spec::RunSpec plan_task(const RunOptions& options, const fs::path& home) {
  spec::RunSpec common;
  std::vector<spec::Override> overrides;
  for (const std::string& text : options.overrides) overrides.push_back(spec::parse_override(text));
  spec::FrozenTask task = freeze(options, overrides);

  common.data_name = options.data.empty() ? task.task.data.name : options.data;
  const dataset::DatasetDescription& data = dataset::find_description(common.data_name);
  const bool other_shape = data.sample_shape != task.task.data.sample_shape || data.classes != task.task.data.classes;
  if (!options.data.empty() && other_shape) {
    // The model takes its input and output sizes from the task: it must be told, which opens the run.
    overrides.push_back({"data.sample_shape", Json(data.sample_shape).dump()});
    overrides.push_back({"data.classes", std::to_string(data.classes)});
    task = freeze(options, overrides);
  }
  common.data_dirs = data_dirs(options.data_dir, home);
  common.cache_dir = home / "cache";
  common.synthetic = options.synthetic;
  if (!options.seed.empty()) common.seed = parse_seed(options.seed);
  spec::set_task(common, std::move(task), std::move(overrides));
  return common;
}

namespace {

// NAME-K, NAME-K.2, ... of what they have in common; `finish` sets the rest of each.
template <typename Finish>
std::vector<spec::RunSpec> for_each_count(const RunOptions& options, const PlanFacts& facts,
                                          const spec::RunSpec& common, const Finish& finish) {
  const int64_t repeats = options.repeat.empty() ? 1 : parse_count(options.repeat, "--repeat", 1);
  std::vector<spec::RunSpec> runs;
  for (const int64_t count : parse_workers(options.workers)) {
    for (int64_t repeat = 1; repeat <= repeats; ++repeat) {
      spec::RunSpec run = common;
      run.name = fmt::format("{}-{}", options.name, count);
      if (repeat > 1) run.name += fmt::format(".{}", repeat);
      check_name(run.name, "run name");
      run.repeat = repeat;
      run.workers = count;
      run.seed = common.seed + static_cast<uint64_t>(repeat - 1);
      run.oversubscribed = count * run.threads_per_worker > facts.cores;
      finish(run);
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

int64_t threads_of(const RunOptions& options, const PlanFacts& facts) {
  const std::vector<int64_t> counts = parse_workers(options.workers);
  const int64_t largest = *std::max_element(counts.begin(), counts.end());
  return options.threads_per_worker.empty() ? std::max<int64_t>(1, facts.cores / largest)
                                            : parse_count(options.threads_per_worker, "--threads-per-worker", 1);
}

std::vector<spec::RunSpec> plan_custom_runs(const RunOptions& options, const PlanFacts& facts) {
  check_name(options.name, "run name");
  for (const auto& [given, flag] :
       {std::pair(!options.task.empty(), "--task"), std::pair(!options.rules.empty(), "--rules"),
        std::pair(!options.variant.empty(), "--variant"), std::pair(!options.framework.empty(), "--framework"),
        std::pair(!options.data.empty(), "--data"), std::pair(!options.data_dir.empty(), "--data-dir"),
        std::pair(!options.overrides.empty(), "--set"), std::pair(!options.max_steps.empty(), "--max-steps"),
        std::pair(!options.max_epochs.empty(), "--max-epochs"), std::pair(!options.max_time.empty(), "--max-time"),
        std::pair(!options.checkpoint_every.empty(), "--checkpoint-every"),
        std::pair(!options.comm_timeout.empty(), "--comm-timeout"), std::pair(options.light, "--light"),
        std::pair(options.gpu, "--gpu"), std::pair(options.synthetic, "--synthetic"),
        std::pair(options.fixed_batch, "--fixed-batch")}) {
    if (given) throw UserError(fmt::format("{} is an option of tasks: give it to your command, behind --", flag));
  }
  check_choice(options.executor, "executor", facts.executors);
  if (!options.image.empty()) {
    throw UserError(fmt::format("--image: the executor '{}' starts programs of this machine and knows no images",
                                options.executor));
  }
  if (options.command.front().empty()) throw UserError("the command behind -- has no program");
  spec::check_variables(options.environment);
  if (options.work_dir.empty() || !fs::path(options.work_dir).is_absolute()) {
    throw UserError(fmt::format("work_dir '{}' is no absolute path", options.work_dir));
  }
  if (!fs::is_directory(options.work_dir))
    throw UserError(fmt::format("work_dir '{}' is not a folder", options.work_dir));

  spec::RunSpec common;
  common.executor = options.executor;
  common.backend = options.backend.empty() ? "gloo" : options.backend;
  check_name(common.backend, "backend");
  if (!options.seed.empty()) common.seed = parse_seed(options.seed);
  common.threads_per_worker = threads_of(options, facts);
  common.cache_dir = facts.home / "cache";
  spec::set_command(common, options.command);
  common.work_dir = options.work_dir;
  common.environment = options.environment;
  const bool rank_word = std::any_of(options.command.begin(), options.command.end(),
                                     [](const std::string& word) { return word.find("{rank}") != std::string::npos; });
  if (common.backend == "mpi" && rank_word) {
    throw UserError("{rank} cannot be filled in under mpirun, which --backend mpi starts: read OMPI_COMM_WORLD_RANK");
  }
  return for_each_count(options, facts, common, [](spec::RunSpec&) {});
}

}  // namespace

std::vector<spec::RunSpec> plan_runs(const RunOptions& options, const PlanFacts& facts) {
  check_name(options.name, "run name");
  if (!options.command.empty()) return plan_custom_runs(options, facts);
  for (const auto& [given, flag] :
       {std::pair(!options.image.empty(), "--image"), std::pair(!options.work_dir.empty(), "--work-dir"),
        std::pair(!options.environment.empty(), "--env")}) {
    if (given) throw UserError(fmt::format("{} is an option of a command: give one behind --", flag));
  }
  const int64_t threads = threads_of(options, facts);

  spec::RunSpec common = plan_task(options, facts.home);
  common.fixed_batch = options.fixed_batch;
  if (options.gpu) common.device = "cuda";
  if (options.explain) common.profile = "explain";
  if (options.profile) common.profile = "time";

  common.framework = choose(facts.catalog, "frameworks", "framework", options.framework, common.framework);
  common.backend = choose(facts.catalog, "backends", "backend", options.backend, common.backend);
  check_choice(options.executor, "executor", facts.executors);
  common.executor = options.executor;

  common.threads_per_worker = threads;
  common.limits.light = options.light;
  if (!options.max_steps.empty()) common.limits.max_steps = parse_count(options.max_steps, "--max-steps", 1);
  if (!options.max_epochs.empty()) common.limits.max_epochs = parse_epochs(options.max_epochs);
  if (!options.max_time.empty()) common.limits.max_time_s = parse_duration(options.max_time, "--max-time");
  common.checkpoint = parse_checkpoint(options.checkpoint_every);
  if (!options.comm_timeout.empty()) common.comm_timeout_s = parse_duration(options.comm_timeout, "--comm-timeout");
  if (options.fixed_batch && options.light) {
    throw UserError("--fixed-batch measures throughput and has no goal: leave out --light");
  }
  if (options.fixed_batch && options.max_steps.empty() && options.max_epochs.empty() && options.max_time.empty()) {
    throw UserError(
        "--fixed-batch has no goal to end at: say when to stop with --max-steps, --max-epochs or --max-time");
  }

  std::vector<spec::RunSpec> runs = for_each_count(
      options, facts, common, [&](spec::RunSpec& run) { spec::set_task(run, common.task, common.overrides); });
  // Last: it may be what the user has to fetch, and the rest is then known to be right.
  if (!options.synthetic) dataset::locate(dataset::find_description(common.data_name), common.data_dirs);
  return runs;
}

std::vector<std::string> plan_warnings(const std::vector<spec::RunSpec>& runs, int cores) {
  std::vector<std::string> warnings;
  std::set<int64_t> unofficial, oversubscribed;
  for (const spec::RunSpec& run : runs) {
    const auto& official = run.task.task.workers;
    if (std::find(official.begin(), official.end(), run.workers) == official.end()) unofficial.insert(run.workers);
    if (run.oversubscribed) oversubscribed.insert(run.workers);
  }
  if (!unofficial.empty() && !runs.front().fixed_batch && !spec::is_custom(runs.front())) {
    warnings.push_back(fmt::format("{} workers: not an official count of {} ({}), so the run is open",
                                   fmt::join(unofficial, ", "), runs.front().task.task.name,
                                   fmt::join(runs.front().task.task.workers, ", ")));
  }
  if (!oversubscribed.empty()) {
    warnings.push_back(
        fmt::format("{} workers x {} threads on {} cores: oversubscribed, times measure the scheduler too",
                    fmt::join(oversubscribed, ", "), runs.front().threads_per_worker, cores));
  }
  return warnings;
}

}  // namespace mlbench::cli
