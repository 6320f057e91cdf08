#include "mlbench/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"
#include "mlbench/objects/object_store.h"
#include "mlbench/plan/choices.h"
#include "mlbench/plan/engine.h"
#include "mlbench/spec/compute.h"
#include "mlbench/spec/crop.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/goal_option.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/variables.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::plan {

namespace fs = std::filesystem;

namespace {

spec::CheckpointPolicy checkpoint_of(const RunOptions& options) {
  spec::CheckpointPolicy policy;
  policy.every_epoch = options.checkpoint_every == "epoch";
  if (!policy.every_epoch) policy.every_steps = spec::count_of(options, &RunOptions::checkpoint_every, 0);
  return policy;
}

spec::Limits limits_of(const RunOptions& options, const spec::TaskSpec& task) {
  spec::Limits limits;
  limits.light = options.light;
  limits.to_the_end = options.to_the_end;
  limits.max_steps = spec::count_of(options, &RunOptions::max_steps, 0);
  limits.max_epochs = spec::real_of(options, &RunOptions::max_epochs, 0);
  const bool official = options.max_time == spec::run_option(&RunOptions::max_time).word;
  if (official && task.max_time_s == 0) {
    throw UserError(fmt::format("--max-time {}: task '{}'{} names no time; give one, as in --max-time 2h",
                                options.max_time, task.name, task.rules.empty() ? "" : ", rules " + task.rules));
  }
  limits.max_time_s = official ? task.max_time_s : spec::seconds_of(options, &RunOptions::max_time, 0);
  return limits;
}

// The text of the task file that `options` names.
std::string task_text_of(const RunOptions& options) {
  return options.task_text.empty() ? read_text_file(options.task, inputs::kTaskFile) : options.task_text;
}

spec::FrozenTask freeze(const RunOptions& options, const std::vector<spec::Override>& overrides) {
  if (options.task.empty()) {
    throw UserError(fmt::format("no task: give --task TASK; valid: {}, or the path of a task file",
                                fmt::join(names_of(spec::task_names()), ", ")));
  }
  if (!options.task.ends_with(".toml")) return spec::find_task(options.task, options.rules, options.variant, overrides);
  if (!options.rules.empty()) throw UserError("--rules chooses among the built-in tasks; a task file is one rule set");
  return spec::parse_task({options.task, task_text_of(options)}, options.variant, overrides);
}

// Throws UserError where one of `others` has the key of `stands_for`, for which `flag` is short.
void check_not_set(const std::string& flag, const spec::Override& stands_for,
                   const std::vector<spec::Override>& others) {
  for (const spec::Override& other : others) {
    if (other.key != stands_for.key) continue;
    throw UserError(fmt::format("{} is short for --set {}={}, and --set {}={} was given, too: leave out one", flag,
                                stands_for.key, stands_for.value, other.key, other.value));
  }
}

// The overrides of --set, then those that --goal stands for.
std::vector<spec::Override> overrides_of(const RunOptions& options) {
  std::vector<spec::Override> overrides;
  for (const std::string& text : options.overrides) overrides.push_back(spec::parse_override(text));
  if (options.goal.empty()) return overrides;
  if (options.light) throw UserError("--goal and --light name a target each: leave out one");
  const std::vector<spec::Override> of_goal = spec::goal_overrides(options.goal, freeze(options, overrides).task);
  for (const spec::Override& setting : of_goal) check_not_set("--goal", setting, overrides);
  overrides.insert(overrides.end(), of_goal.begin(), of_goal.end());
  return overrides;
}

}  // namespace

std::string absolute_data_dir(const std::string& data_dir) {
  return objects::is_store(data_dir) ? data_dir : std::filesystem::absolute(data_dir).lexically_normal().string();
}

std::vector<std::string> data_dirs(const std::string& data_dir, const std::filesystem::path& home) {
  std::vector<std::string> dirs;
  if (!data_dir.empty()) {
    if (!objects::is_store(data_dir) && !std::filesystem::is_directory(data_dir)) {
      throw UserError(fmt::format("--data-dir '{}' is not a folder", data_dir));
    }
    dirs.push_back(absolute_data_dir(data_dir));
  } else if (const auto folder = environment_variable(variables::kDataDir)) {
    dirs.push_back(absolute_data_dir(*folder));
  }
  dirs.push_back(data_dir_of(home));
  return dirs;
}

PlanFacts gather_facts(const fs::path& home) {
  PlanFacts facts;
  facts.home = home;
  facts.cores = available_cores();
  return facts;
}

PlanFacts gather_facts(const fs::path& worker, const fs::path& home) {
  PlanFacts facts = gather_facts(home);
  const auto found = supervise::worker_catalog(worker, facts.home);
  if (!found.catalog) {
    const std::string advice = catalog::advice_for(catalog::programs().front());
    throw UserError(fmt::format("{}: nothing can run here; {}", found.reason, advice));
  }
  facts.catalog = *found.catalog;
  return facts;
}

RunOptions with_task_text(RunOptions options) {
  if (!options.task.ends_with(".toml")) return options;
  options.task_text = task_text_of(options);
  options.task = fs::path(options.task).filename();
  return options;
}

spec::FrozenTask plan_frozen_task(const RunOptions& options) { return freeze(options, overrides_of(options)); }

spec::RunSpec plan_task(const RunOptions& options, const fs::path& home) {
  spec::RunSpec common;
  std::vector<spec::Override> overrides = overrides_of(options);
  if (options.overlap) {
    const spec::Override overlap{"optimizer.overlap", "true"};
    check_not_set("--overlap", overlap, overrides);
    overrides.push_back(overlap);
  }
  spec::FrozenTask task = freeze(options, overrides);

  common.data_name = options.data.empty() ? task.task.data.name : options.data;
  const dataset::DatasetDescription& data = dataset::find_description(common.data_name);
  const spec::DataSpec& asked = task.task.data;
  const std::vector<int64_t> shape = spec::crops(asked, data.sample_shape) ? asked.sample_shape : data.sample_shape;
  const bool other_shape = shape != asked.sample_shape || data.classes != asked.classes;
  if (!options.data.empty() && other_shape) {
    // The model takes its input and output sizes from the task, so that these become overrides, which open the run.
    overrides.push_back({"data.sample_shape", Json(shape).dump()});
    overrides.push_back({"data.classes", std::to_string(data.classes)});
    task = freeze(options, overrides);
  }
  metrics::check_metrics(task.task);
  if (!catalog::facts_of(options.executor).in_images) common.data_dirs = data_dirs(options.data_dir, home);
  common.cache_dir = cache_dir_of(home);
  common.synthetic = options.synthetic;
  common.seed = spec::seed_of(options, common.seed);
  spec::set_task(common, std::move(task), std::move(overrides));
  return common;
}

int64_t most_ranks(int cores) { return std::max<int64_t>(128, int64_t{16} * cores); }
int64_t most_threads(int cores) { return std::max<int64_t>(1024, int64_t{64} * cores); }

namespace {

// The first of NAME-K, NAME-K.2, ... that neither exists nor is planned.
std::string free_name(const fs::path& home, const std::vector<spec::RunSpec>& planned, const std::string& base) {
  const auto taken = [&](const std::string& name) {
    return fs::exists(runs_dir(home) / name) ||
           std::ranges::any_of(planned, [&](const spec::RunSpec& run) { return run.name == name; });
  };
  std::string name = base;
  for (int64_t number = 2; taken(name); ++number) name = fmt::format("{}.{}", base, number);
  return name;
}

// RunSpec::asked for one of the runs. `whole` is `options` with the text of a task file.
Json asked_of(const RunOptions& options, RunOptions whole, const spec::RunSpec& run) {
  whole.workers = {std::to_string(run.workers)};
  whole.seed = std::to_string(run.seed);
  whole.repeat.clear();
  whole.next_repeat = whole.no_wait = false;
  whole.backend = run.backend;
  if (whole.threads_per_worker.empty()) whole.threads_per_worker = std::to_string(run.threads_per_worker);
  if (spec::trains(run)) whole.framework = run.framework;
  if ((spec::trains(run) || spec::declares_task(run)) && options.task_text.empty()) {
    whole.rules = run.task.task.rules;
    whole.variant = run.task.task.variant;
  }
  return to_json(whole);
}

// Makes the runs NAME-K, NAME-K.2, ... from `common`, which they have in common; `finish` completes each.
template <typename Finish>
std::vector<spec::RunSpec> for_each_count(const RunOptions& options, const PlanFacts& facts, const PlanEngine& engine,
                                          const spec::RunSpec& common, const Finish& finish) {
  const int64_t repeats = spec::count_of(options, &RunOptions::repeat, 1);
  const RunOptions whole = with_task_text(options);
  std::vector<spec::RunSpec> runs;
  for (const int64_t count : spec::workers_of(options)) {
    for (int64_t repeat = 1; repeat <= repeats; ++repeat) {
      spec::RunSpec run = common;
      run.name = fmt::format("{}-{}", options.name, count);
      if (options.next_repeat) {
        run.name = free_name(facts.home, runs, run.name);
      } else if (repeat > 1) {
        run.name += fmt::format(".{}", repeat);
      }
      check_name(run.name, "run name");
      run.repeat = repeat;
      run.workers = count;
      run.seed = common.seed + static_cast<uint64_t>(repeat - 1);
      run.executor = options.executor;
      run.engine = engine.options;
      run.cpus = engine.cpus;
      run.share_host = options.share_host;
      run.oversubscribed =
          static_cast<double>(engine.most_on_a_host(count).value_or(0)) * spec::cpus_per_worker(run) > facts.cores;
      finish(run);
      run.asked = asked_of(options, whole, run);
      engine.check(run);
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

// The threads of each worker: by default `usual`, or else a fair share of the cores. Throws UserError where a host
// would have too many ranks or threads. Named hosts are taken to be like this one, the only one whose cores are known.
// An engine that chooses the hosts itself is told the threads and decides.
int64_t threads_of(const RunOptions& options, const PlanFacts& facts, const PlanEngine& engine,
                   std::optional<int64_t> usual = std::nullopt) {
  const std::vector<int64_t> counts = spec::workers_of(options);
  const auto on_a_host = engine.most_on_a_host(*std::max_element(counts.begin(), counts.end()));
  if (!on_a_host) return spec::cpus_of(options, usual.value_or(1)).threads;
  const int64_t largest = *on_a_host;
  if (largest > most_ranks(facts.cores)) {
    throw UserError(
        fmt::format("{} workers: a host of {} cores starts at most {}", largest, facts.cores, most_ranks(facts.cores)));
  }
  const auto most = static_cast<int64_t>(spec::kThreadCounts.most);
  const int64_t fair = options.share_host ? 1 : std::clamp<int64_t>(facts.cores / largest, 1, most);
  const spec::CpuShare given = spec::cpus_of(options, usual.value_or(fair));
  const int64_t threads = given.threads;
  if (largest * threads > most_threads(facts.cores)) {
    throw UserError(fmt::format("{} workers with {} threads each are {} threads; a host of {} cores starts at most {}",
                                largest, threads, largest * threads, facts.cores, most_threads(facts.cores)));
  }
  spec::RunSpec whole;
  whole.workers = largest;
  whole.threads_per_worker = threads;
  whole.cpus = given.limit;
  if (const int64_t cores = spec::cores_needed(whole); options.share_host && cores > facts.cores) {
    throw UserError(
        fmt::format("--share-host: {} workers with {} each need {} cores of their own, and this "
                    "host has {}: give less workers or threads (-c), or leave it out",
                    largest, spec::cpus_text(whole), cores, facts.cores));
  }
  return threads;
}

// Throws UserError for a wrong folder of a command. In an image, a command starts where the image says, unless a folder
// of the host is given, which then exists in the image, too.
void check_work_dir(const RunOptions& options, const PlanEngine& engine) {
  const bool in_image = !spec::engine_text(engine.options, "image").empty();
  if (options.work_dir.empty() && (in_image || engine.facts().in_images)) return;  // the image's own
  if (options.work_dir.empty() || !fs::path(options.work_dir).is_absolute()) {
    throw UserError(fmt::format("work_dir '{}' is no absolute path", options.work_dir));
  }
  if (engine.facts().in_images) return;  // the folder is one of the image
  if (!fs::is_directory(options.work_dir)) {
    throw UserError(fmt::format("work_dir '{}' is not a folder", options.work_dir));
  }
  if (in_image && fs::path(options.work_dir).lexically_normal() == "/") {
    throw UserError("work_dir '/' cannot be that of an image, too: give a folder below it, or leave it out");
  }
}

std::vector<spec::RunSpec> plan_custom_runs(const RunOptions& options, const PlanFacts& facts) {
  const PlanEngine engine(options);
  if (options.command.front().empty()) throw UserError("the command behind -- has no program");
  spec::check_variables(options.environment);
  check_work_dir(options, engine);

  spec::RunSpec common;
  common.backend = options.backend.empty() ? "gloo" : options.backend;
  check_name(common.backend, "backend");
  common.seed = spec::seed_of(options, common.seed);
  common.threads_per_worker = threads_of(options, facts, engine);
  common.cache_dir = cache_dir_of(facts.home);
  spec::set_command(common, {options.command, options.work_dir, options.environment});
  if (!options.task.empty()) {
    spec::RunSpec declared = plan_task(options, facts.home);
    spec::declare(common, std::move(declared.task), std::move(declared.overrides), std::move(declared.data_name));
    common.limits.light = options.light;
  }
  if (options.gpu) common.device = "cuda";
  const bool rank_word = std::any_of(options.command.begin(), options.command.end(),
                                     [](const std::string& word) { return word.find("{rank}") != std::string::npos; });
  if (catalog::backend_facts(common.backend).needs_mpirun && rank_word && engine.facts().on_this_host) {
    throw UserError("{rank} cannot be filled in under mpirun, which --backend mpi starts: read OMPI_COMM_WORLD_RANK");
  }
  return for_each_count(options, facts, engine, common, [](spec::RunSpec&) {});
}

// The collectives to measure: task 0a, or `options.collectives`, completed by the defaults of `bench collectives`.
spec::CollectivesSpec collectives_of(const RunOptions& options) {
  if (options.collectives.is_null()) return spec::task_0a();
  Json whole = spec::to_json(spec::CollectivesSpec());
  whole.merge_patch(options.collectives);
  return spec::collectives_from_json(whole, "collectives");
}

std::vector<spec::RunSpec> plan_collectives(const RunOptions& options, const PlanFacts& facts) {
  const spec::CollectivesSpec collectives = collectives_of(options);
  spec::RunSpec common;
  common.backend = choose(facts.catalog, "backends", "backend", options.backend, common.backend);
  if (options.gpu) common.device = gpu_buffers(options, collectives, facts.catalog, common.backend);
  const PlanEngine engine(options);
  common.seed = spec::seed_of(options, common.seed);
  common.threads_per_worker = threads_of(options, facts, engine, 1);
  common.comm_timeout_s = spec::seconds_of(options, &RunOptions::comm_timeout, common.comm_timeout_s);
  common.timeline = options.timeline;
  if (collectives.timeout_s > 0) common.comm_timeout_s = collectives.timeout_s;
  common.communication = communication_of(options, facts.catalog, common.backend);
  common.cache_dir = cache_dir_of(facts.home);
  for (const int64_t workers : spec::workers_of(options)) spec::check_collectives(collectives, workers);
  return for_each_count(options, facts, engine, common,
                        [&](spec::RunSpec& run) { spec::set_collectives(run, collectives); });
}

}  // namespace

std::vector<spec::RunSpec> plan_runs(const RunOptions& given, const PlanFacts& facts) {
  check_name(given.name, "run name");
  spec::check_run_options(given, catalog::run_options());
  RunOptions options = given;
  if (options.task.ends_with(".toml")) options.task_text = task_text_of(given);  // read once, since it may be a pipe
  if (!options.command.empty()) return plan_custom_runs(options, facts);
  if (!spec::asks_for_training(options)) return plan_collectives(options, facts);
  const PlanEngine engine(options);
  const int64_t threads = threads_of(options, facts, engine);

  spec::RunSpec common = plan_task(options, facts.home);
  common.fixed_batch = options.fixed_batch;
  common.emulated_step_s = spec::emulated_step_of(options.compute);
  if (options.gpu) common.device = "cuda";
  if (!options.convolution.empty()) common.convolution = options.convolution;
  if (options.explain) common.profile = "explain";
  if (options.profile) common.profile = "time";
  common.timeline = options.timeline;

  common.framework = choose_framework(facts.catalog, options.framework, common.task.task, common.framework);
  check_framework(common, facts.catalog);
  check_algorithm(common, facts.catalog);
  common.backend = choose(facts.catalog, "backends", "backend", options.backend, common.backend);

  common.threads_per_worker = threads;
  common.inter_op_threads = inter_op_threads_of(options, facts.catalog, common.framework);
  check_image_options(options, common.data_name);
  common.decoding_threads = spec::count_of(options, &RunOptions::decoding_threads, 0);
  common.max_bad = spec::count_of(options, &RunOptions::max_bad, 0);
  common.limits = limits_of(options, common.task.task);
  common.checkpoint = checkpoint_of(options);
  common.comm_timeout_s = spec::seconds_of(options, &RunOptions::comm_timeout, common.comm_timeout_s);
  common.communication = communication_of(options, facts.catalog, common.backend);
  if (spec::measures_throughput(options) && (options.light || options.to_the_end || !options.goal.empty())) {
    throw UserError(fmt::format("{} measures throughput and has no goal: leave out {}",
                                options.fixed_batch ? "--fixed-batch" : "--compute",
                                options.light        ? "--light"
                                : options.to_the_end ? "--to-the-end"
                                                     : "--goal"));
  }
  if (options.fixed_batch && options.max_steps.empty() && options.max_epochs.empty() && options.max_time.empty()) {
    throw UserError(
        "--fixed-batch has no goal to end at: say when to stop with --max-steps, --max-epochs or --max-time");
  }
  if (options.fixed_batch && !options.checkpoint_every.empty()) {
    throw UserError(
        "--fixed-batch measures throughput and keeps no weights: leave out --checkpoint-every, or --fixed-batch");
  }

  if (engine.facts().in_images) {
    common.cache_dir = exec::kImageCache;
    common.data_dirs = {exec::kImageData};
    if (!options.data_dir.empty()) common.data_dirs.insert(common.data_dirs.begin(), options.data_dir);
  }

  std::vector<spec::RunSpec> runs = for_each_count(
      options, facts, engine, common, [&](spec::RunSpec& run) { spec::set_task(run, common.task, common.overrides); });
  // The data are checked last: the user may have to fetch them, and then the rest is known to be right.
  if (!options.synthetic) {
    const dataset::DatasetDescription& data = dataset::find_description(common.data_name);
    if (engine.facts().in_images) {
      dataset::require_files(data);
    } else {
      dataset::locate(data, common.data_dirs);
    }
  }
  return runs;
}

std::optional<record::Bfloat16Speed> bfloat16_speed_of(const std::vector<spec::RunSpec>& runs,
                                                       const std::filesystem::path& worker,
                                                       const std::filesystem::path& home) {
  const spec::RunSpec& run = runs.front();
  if (!spec::trains(run) || run.precision != "bf16" || run.device != "cpu") return std::nullopt;
  const std::string_view work = models::main_work(models::describe_model(run.task.task));
  if (catalog::facts_of(run.executor).on_this_host) return supervise::bfloat16_speed(worker, home, run.framework, work);
  return record::bfloat16_speed_not_known(work, "the ranks are on other hosts; type mlbench doctor there");
}

std::vector<std::string> plan_warnings(const std::vector<spec::RunSpec>& runs, int cores,
                                       const std::optional<record::Bfloat16Speed>& bfloat16) {
  std::vector<std::string> warnings;
  std::set<int64_t> unofficial, oversubscribed;
  for (const spec::RunSpec& run : runs) {
    const auto& official = run.task.task.workers;
    if (std::find(official.begin(), official.end(), run.workers) == official.end()) unofficial.insert(run.workers);
    if (run.oversubscribed) oversubscribed.insert(run.workers);
  }
  if (runs.front().division == "own" && spec::trains(runs.front())) {
    warnings.push_back(fmt::format("{}, task hash {}: none of the official tasks, so the runs are of division own",
                                   runs.front().task.task.name, runs.front().task.hash.substr(0, 12)));
  } else if (!unofficial.empty() && !spec::measures_throughput(runs.front()) &&
             !runs.front().task.task.workers.empty() && spec::uses_worker(runs.front())) {
    warnings.push_back(fmt::format("{} workers: not an official count of {} ({}), so the run is open",
                                   fmt::join(unofficial, ", "), runs.front().task.task.name,
                                   fmt::join(runs.front().task.task.workers, ", ")));
  }
  const std::string& of_task = runs.front().task.task.framework;
  if (spec::trains(runs.front()) && !of_task.empty() && of_task != runs.front().framework) {
    warnings.push_back(
        fmt::format("{} names framework {}, and the runs take {} (mlbench list frameworks says what works)",
                    runs.front().task.task.name, of_task, runs.front().framework));
  }
  const spec::Communication& communication = runs.front().communication;
  if (!communication.wire_dtype.empty()) {
    warnings.push_back(fmt::format("float32 travels as {}: no official task does that", communication.wire_dtype));
  }
  if (bfloat16 && bfloat16->verdict == record::kSlower) {
    warnings.push_back(record::describe_bfloat16(*bfloat16, runs.front().framework) +
                       "; type --set precision=float32 instead");
  } else if (bfloat16 && bfloat16->verdict == record::kNotKnown) {
    warnings.push_back(record::describe_bfloat16(*bfloat16, runs.front().framework));
  }
  if (runs.front().emulated_step_s > 0) {
    warnings.emplace_back("steps are emulated (--compute): nothing is learnt or evaluated, and no goal is reached");
  }
  if (!communication.netem.empty()) warnings.emplace_back("the network is made (--netem): times are synthetic");
  if (const double limit = runs.front().cpus; !oversubscribed.empty()) {
    warnings.push_back(
        fmt::format("{} workers x {} threads{} on {} cores: oversubscribed, times measure the scheduler too",
                    fmt::join(oversubscribed, ", "), runs.front().threads_per_worker,
                    limit > 0 ? fmt::format(" with {} CPUs", limit) : "", cores));
  }
  if (runs.front().share_host) {
    warnings.emplace_back("the runs share their host (--share-host): their times stand in no table");
  }
  return warnings;
}

}  // namespace mlbench::plan
