#include "mlbench/cli/verbs/start_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/cli/clusters/defaults.h"
#include "mlbench/cli/follow.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/terminal/prompt.h"
#include "mlbench/cli/verbs/timeline_file.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/choices.h"
#include "mlbench/plan/engine.h"
#include "mlbench/plan/plan.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/goal_option.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/task.h"
#include "mlbench/spec/variables.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char *kOwn = "custom", *kNone = "-", *kYes = "yes", *kNo = "no";

// What the UserError says that `check` throws; "" where it throws none.
template <typename Check>
std::string complaint_of(Check check) {
  try {
    check();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Asks for an image, unless one is given, and for the command to start in it or here.
void ask_command(spec::RunOptions& options, LastAnswers& answers) {
  if (spec::engine_text(options.engine, "image").empty()) {
    answers.image = ask_text("Image (- for none)", answers.image.empty() ? kNone : answers.image, stderr,
                             read_input_line, [](const std::string&) { return ""; });
    if (answers.image != kNone) options.engine["image"] = answers.image;
  }
  answers.command = ask_text("Command", answers.command, stderr, read_input_line, [](const std::string& line) {
    return complaint_of([&] {
      if (split_words(line).empty()) throw UserError("expected a program and its arguments, as a shell splits them");
    });
  });
  complete_command(options, split_words(answers.command));
}

// Asks for a back end. A command may have one that only itself knows.
void ask_backend(spec::RunOptions& options, const plan::PlanFacts& facts, LastAnswers& answers) {
  std::vector<Choice> backends;
  for (const std::string& name : plan::available_names(facts.catalog, "backends")) backends.push_back({name, ""});
  const bool custom = !options.command.empty();
  if (custom) backends.push_back({kOwn, "one of the command's own, by its name"});
  if (backends.empty()) return;
  options.backend = answers.backend = ask("Backend", backends, answers.backend, stderr, read_input_line);
  if (!custom || options.backend != kOwn) return;
  options.backend = answers.own_backend =
      ask_text("Name of the back end", answers.own_backend, stderr, read_input_line,
               [](const std::string& name) { return complaint_of([&] { check_name(name, "backend"); }); });
  answers.all_nodes =
      ask("Run on all nodes", {{kYes, "the command is started for each worker"}, {kNo, "once: for a run of 1 worker"}},
          answers.all_nodes, stderr, read_input_line);
  if (answers.all_nodes == kNo && options.workers != std::vector<std::string>{"1"}) {
    throw UserError(
        "a command is started for each worker: answer yes, or give 1 worker, whose command starts the rest");
  }
}

// Asks on a terminal for missing choices, as MLBench does. Returns false where the user pressed Ctrl-C.
bool ask_missing(spec::RunOptions& options, const plan::PlanFacts& facts) try {
  LastAnswers answers = load_answers(facts.home);
  std::vector<Choice> tasks;
  for (spec::TaskName& one : spec::task_names()) tasks.push_back({std::move(one.name), std::move(one.title)});
  tasks.push_back({kOwn, "a command of your own, in an image or not"});
  answers.task = ask("Benchmark", tasks, answers.task, stderr, read_input_line);
  if (answers.task == kOwn) {
    ask_command(options, answers);
  } else {
    options.task = answers.task;
  }
  if (options.backend.empty()) ask_backend(options, facts, answers);
  save_answers(facts.home, answers);
  return true;
} catch (const UserError&) {
  if (InterruptGuard::count() > 0) return false;
  throw;
}

std::vector<std::string> commands_of(const spec::RunSpec& run, const fs::path& worker, int64_t segment,
                                     std::optional<int64_t> resume_step) {
  const auto executor = catalog::make_executor(run.executor, run.engine);
  return executor->describe(
      supervise::launch_request(run, *executor, worker, segment, resume_step, run.oversubscribed));
}

std::string limits_text(const spec::Limits& limits) {
  std::vector<std::string> words;
  if (limits.max_steps > 0) words.push_back(fmt::format("{} steps", limits.max_steps));
  if (limits.max_epochs > 0) words.push_back(fmt::format("{} epochs", limits.max_epochs));
  if (limits.max_time_s > 0) words.push_back(fmt::format("{} s", limits.max_time_s));
  if (limits.to_the_end) words.emplace_back("to the end");
  return words.empty() ? "" : fmt::format("  limits    {}\n", fmt::join(words, ", "));
}

// The request for a master. It holds what files and variables of this command mean here, so that the master's folder
// and environment do not matter.
Json request_of(spec::RunOptions options) {
  options = plan::with_task_text(std::move(options));
  if (spec::asks_for_training(options)) {
    if (options.data_dir.empty()) options.data_dir = environment_variable(variables::kDataDir).value_or("");
    if (!options.data_dir.empty()) options.data_dir = plan::absolute_data_dir(options.data_dir);
  }
  Json request = to_json(options);
  // The values of variables that are only named; the master keeps them only in memory.
  for (const std::string& one : options.environment) {
    const char* value = std::getenv(one.c_str());
    if (value != nullptr && one.find('=') == std::string::npos) request["env_values"][one] = value;
  }
  return request;
}

// Lets the master make the runs, and follows them.
StartedRuns run_served(const Context& context, const MasterClient& master, const spec::RunOptions& options,
                       const StartOptions& start, const TimelineFiles& timelines, RowFormat rows) {
  if (InterruptGuard::count() > 0) return {.ends_with = ExitCode::kStopped};
  Json request = request_of(options);
  if (!start.executor_given && options.executor == spec::RunOptions().executor) request.erase("executor");
  const Json answer = master.post("/runs", request);
  for (const Json& warning : answer.at("warnings")) say("note: " + warning.get<std::string>());
  StartedRuns started;
  std::vector<std::string>& names = started.names;
  for (const Json& run : answer.at("runs")) names.push_back(run.value("name", ""));
  say(fmt::format("{} {} to the master at {}", fmt::join(names, ", "), names.size() == 1 ? "belongs" : "belong",
                  master.url()));
  if (start.detach) {
    timelines.say_how(context, names);
    started.summaries = answer.at("runs");
    return started;
  }
  const bool here = !master.elsewhere();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string position = names.size() == 1 ? "" : fmt::format("run {} of {}  ", i + 1, names.size());
    Served served = follow_served(master, names, i, here ? runs_dir(context.home()) / names[i] : fs::path(),
                                  position + names[i], rows);
    started.records.push_back(std::move(served.record));
    started.interrupted = started.interrupted || served.interrupted;
    if (served.left) return {.ends_with = ExitCode::kStopped};
  }
  timelines.write(context, context.home(), &master, names, names.size());
  return started;
}

// Makes the runs on this machine, each as soon as the one before is over.
StartedRuns run_here(const Context& context, const std::vector<spec::RunSpec>& runs, const fs::path& home, bool no_wait,
                     bool detach, RowFormat rows) {
  StartedRuns started;
  for (const spec::RunSpec& planned : runs) {
    started.interrupted = InterruptGuard::count() > 0;
    if (started.interrupted) break;
    if (const auto other = home::name_of_failed_start(home, planned.name)) {
      say(fmt::format("note: the run {}, whose start failed, is kept as {}", planned.name, *other));
    }
    const spec::RunSpec made = home::create_run(home, planned);
    started.names.push_back(made.name);
    supervise::SupervisorOptions supervisor = supervisor_options(context.worker(), made);
    supervisor.no_wait = no_wait;
    if (detach) {
      started.records.push_back(run_detached(made, supervisor));
      continue;
    }
    const std::string position =
        runs.size() == 1 ? "" : fmt::format("run {} of {}  ", started.records.size() + 1, runs.size());
    Followed followed = run_attached(made, supervisor, position + describe(made), rows);
    started.records.push_back(std::move(followed.record));
    started.interrupted = followed.interrupted;
    if (started.interrupted || started.records.back().state == "stopped") break;
  }
  if (started.records.size() < runs.size()) {
    std::vector<std::string> rest;
    for (size_t i = started.records.size(); i < runs.size(); ++i) rest.push_back(runs[i].name);
    say(fmt::format("not started: {}", fmt::join(rest, ", ")));
  }
  return started;
}

}  // namespace

void complete_command(spec::RunOptions& options, const std::vector<std::string>& words) {
  if (words.empty()) throw UserError("the command behind -- has no program");
  options.command = words;
  // In an image, ranks see the image's files and not this folder.
  const bool in_image =
      !spec::engine_text(options.engine, "image").empty() || catalog::facts_of(options.executor).in_images;
  if (!options.work_dir.empty() || !in_image) {
    options.work_dir = fs::absolute(options.work_dir.empty() ? "." : options.work_dir).lexically_normal();
  }
  if (options.work_dir.ends_with('/') && options.work_dir.size() > 1) options.work_dir.pop_back();
  for (std::string& one : options.environment) {
    const spec::Variable variable = spec::parse_variable(one);
    if (variable.from == spec::ValueFrom::kFile) {
      one = fmt::format("{}=@{}", variable.name, fs::absolute(variable.value).lexically_normal().string());
    } else if (variable.from == spec::ValueFrom::kStarter && std::getenv(variable.name.c_str()) == nullptr) {
      throw UserError(
          fmt::format("--env {}: there is no such variable here; set it, or give {}=VALUE or {}=@FILE", one, one, one));
    }
  }
}

std::string describe(const spec::RunSpec& run) {
  std::string labels = run.division;
  if (spec::declares_task(run)) {
    labels +=
        fmt::format(", declares {} to {}", run.task.task.name, spec::goal_text(run.task.task.goal, run.limits.light));
  }
  if (run.limits.light) labels += ", light";
  if (run.synthetic) labels += ", synthetic";
  if (run.emulated_step_s > 0) labels += ", emulated";
  if (!run.communication.netem.empty()) labels += ", synthetic network";
  if (run.oversubscribed) labels += ", oversubscribed";
  if (run.share_host) labels += ", shared host";
  const std::string framework = spec::collectives_of(run) != nullptr ? "" : run.framework + ", ";
  const spec::Command* const command = spec::command_of(run);
  return fmt::format("{}: {}, {} x {}, {}{}, {}", run.name,
                     command == nullptr ? run.task.task.name : exec::command_line({}, command->words),
                     counted(run.workers, "worker"), spec::cpus_text(run), framework, run.backend, labels);
}

Json plans_of(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
              std::optional<int64_t> resume_step) {
  Json plans = Json::array();
  for (const spec::RunSpec& run : runs) {
    plans.push_back({{"name", run.name},
                     {"spec", spec::to_json(run)},
                     {"commands", commands_of(run, context.worker(), segment, resume_step)},
                     {"obstacle", text_or_null(plan::obstacle_to(run))}});
  }
  return plans;
}

void print_dry_run(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
                   std::optional<int64_t> resume_step) {
  const Json plans = plans_of(context, runs, segment, resume_step);
  if (context.json) return print_json(plans);
  for (size_t run = 0; run < runs.size(); ++run) {
    const spec::RunSpec& one = runs[run];
    if (const Json& reason = plans[run].at("obstacle"); !reason.is_null()) {
      say("note: " + plan::cannot_start(one, reason.get<std::string>()));
    }
    print(fmt::format("{}\n  folder    {}\n  seed      {}\n  task hash {}\n{}", describe(one), one.run_dir, one.seed,
                      one.task.hash, limits_text(one.limits)));
    const Json& commands = plans[run].at("commands");
    for (size_t i = 0; i < commands.size(); ++i) {
      print_as_it_is(fmt::format("  {:<9} {}\n", commands.size() == 1 ? "command" : fmt::format("rank {}", i),
                                 commands[i].get<std::string>()));
    }
  }
}

void print_manifest(const Context& context, const std::vector<spec::RunSpec>& runs, const std::string& kind) {
  Json objects = Json::array();
  for (const spec::RunSpec& run : runs) {
    if (spec::engine_count(run.engine, "requeue") > 0) {
      throw UserError("--emit with --requeue: such ranks have no supervisor that could begin again; leave it out");
    }
    for (const std::string& text : spec::variables_of(run)) {
      const spec::Variable variable = spec::parse_variable(text);
      if (variable.from == spec::ValueFrom::kText) continue;
      throw UserError(
          fmt::format("--emit with --env {}: a secret stands in no manifest; leave it out, and name one of "
                      "Kubernetes' in a --pod-overlay (env, valueFrom, secretKeyRef)",
                      variable.name));
    }
    const auto executor = catalog::make_executor(run.executor, run.engine);
    const exec::LaunchRequest request =
        supervise::launch_request(run, *executor, context.worker(), 1, std::nullopt, run.oversubscribed);
    const Json spec = spec::uses_worker(run) ? spec::to_json(run) : Json();
    for (Json& object : executor->manifest(kind, request, spec)) objects.push_back(std::move(object));
  }
  print_json(objects.size() == 1 ? objects[0] : Json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}});
}

StartedRuns start_runs(const Context& context, spec::RunOptions options, const StartOptions& start, RowFormat rows) {
  if (start.local && context.url_option) throw UserError("--local starts the runs here: leave out -u");
  if (!start.local) apply_cluster(context, start.executor_given, options);
  const bool only_shown = start.dry_run || !start.emit.empty();
  const auto master = start.local || only_shown ? std::nullopt : find_master(context);
  const bool can_ask = !context.json && is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO);
  const bool unsaid = options.task.empty() && spec::asks_for_training(options);
  if (unsaid && can_ask && !(master && master->elsewhere()) &&
      !ask_missing(options, plan::gather_facts(context.worker(), context.home()))) {
    return {.ends_with = ExitCode::kStopped};
  }
  const TimelineFiles timelines(start.timeline, !options.command.empty());
  options.timeline = timelines.wanted();
  if (master) return run_served(context, *master, options, start, timelines, rows);
  const plan::PlanFacts facts = options.command.empty() ? plan::gather_facts(context.worker(), context.home())
                                                        : plan::gather_facts(context.home());
  std::vector<spec::RunSpec> runs = plan::plan_runs(options, facts);
  std::vector<std::string> names;
  for (spec::RunSpec& run : runs) {
    run.run_dir = runs_dir(facts.home) / run.name;
    names.push_back(run.name);
  }
  if (start.emit.empty() && !start.dry_run) plan::refuse_impossible(runs);
  home::check_names_free(facts.home, names);
  const auto bfloat16 = plan::bfloat16_speed_of(runs, context.worker(), facts.home);
  for (const std::string& warning : plan::plan_warnings(runs, facts.cores, bfloat16)) say("note: " + warning);
  if (!start.emit.empty()) {
    print_manifest(context, runs, start.emit);
    return {.ends_with = ExitCode::kOk};
  }
  if (start.dry_run) {
    print_dry_run(context, runs, 1, std::nullopt);
    return {.ends_with = ExitCode::kOk};
  }
  StartedRuns started = run_here(context, runs, facts.home, options.no_wait, start.detach, rows);
  if (start.detach) {
    timelines.say_how(context, started.names);
  } else {
    timelines.write(context, facts.home, nullptr, started.names, runs.size());
  }
  return started;
}

}  // namespace mlbench::cli
