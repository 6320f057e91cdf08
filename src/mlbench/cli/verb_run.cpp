#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>

#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/follow.h"
#include "mlbench/cli/interrupt.h"
#include "mlbench/cli/option_flags.h"
#include "mlbench/cli/plan.h"
#include "mlbench/cli/prompt.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/runs.h"
#include "mlbench/cli/verbs.h"
#include "mlbench/report/records.h"
#include "mlbench/report/summary.h"
#include "mlbench/spec/variables.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

struct StartOptions {
  bool dry_run = false, detach = false, local = false;
};

void add_start_options(CLI::App& verb, StartOptions& start) {
  verb.add_flag("--detach", start.detach, "start and return; the run survives this terminal");
  verb.add_flag("--dry-run", start.dry_run, "print what would run, and start nothing");
}

// Missing choices, asked on a terminal as MLBench does. False: Ctrl-C was the answer.
bool ask_missing(RunOptions& options, const PlanFacts& facts) try {
  LastAnswers answers = load_answers(facts.home);
  std::vector<Choice> tasks;
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    const spec::TaskSpec task = spec::parse_task(source, "", {}).task;
    if (tasks.empty() || tasks.back().value != task.name) tasks.push_back({task.name, task.title});
  }
  options.task = ask("Benchmark", tasks, answers.task, stderr, read_input_line);
  if (options.backend.empty()) {
    std::vector<Choice> backends;
    for (const std::string& name : available_names(facts.catalog, "backends")) backends.push_back({name, ""});
    if (!backends.empty()) options.backend = ask("Backend", backends, answers.backend, stderr, read_input_line);
  }
  answers = {options.task, options.backend};
  save_answers(facts.home, answers);
  return true;
} catch (const UserError&) {
  if (InterruptGuard::count() > 0) return false;
  throw;
}

std::vector<std::string> commands_of(const spec::RunSpec& run, const fs::path& worker, int64_t segment,
                                     std::optional<int64_t> resume_step) {
  const auto request = supervise::launch_request(run, worker, segment, resume_step, run.oversubscribed);
  return catalog::make_executor(run.executor)->describe(request);
}

std::string describe(const spec::RunSpec& run) {
  std::string labels = run.division;
  if (run.limits.light) labels += ", light";
  if (run.synthetic) labels += ", synthetic";
  if (!run.communication.netem.empty()) labels += ", synthetic network";
  if (run.oversubscribed) labels += ", oversubscribed";
  return fmt::format("{}: {}, {} worker{} x {} thread{}, {}, {}, {}", run.name,
                     run.command.empty() ? run.task.task.name : exec::command_line({}, run.command), run.workers,
                     run.workers == 1 ? "" : "s", run.threads_per_worker, run.threads_per_worker == 1 ? "" : "s",
                     run.framework, run.backend, labels);
}

std::string limits_text(const spec::Limits& limits) {
  std::vector<std::string> words;
  if (limits.max_steps > 0) words.push_back(fmt::format("{} steps", limits.max_steps));
  if (limits.max_epochs > 0) words.push_back(fmt::format("{} epochs", limits.max_epochs));
  if (limits.max_time_s > 0) words.push_back(fmt::format("{} s", limits.max_time_s));
  if (limits.to_the_end) words.emplace_back("to the end");
  return words.empty() ? "" : fmt::format("  limits    {}\n", fmt::join(words, ", "));
}

void print_dry_run(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
                   std::optional<int64_t> resume_step) {
  Json plans = Json::array();
  for (const spec::RunSpec& run : runs) {
    const auto commands = commands_of(run, context.worker(), segment, resume_step);
    plans.push_back({{"name", run.name}, {"spec", spec::to_json(run)}, {"commands", commands}});
    if (context.json) continue;
    print(fmt::format("{}\n  folder    {}\n  seed      {}\n  task hash {}\n{}", describe(run), run.run_dir, run.seed,
                      run.task.hash, limits_text(run.limits)));
    for (size_t i = 0; i < commands.size(); ++i) {
      print(fmt::format("  {:<9} {}\n", commands.size() == 1 ? "command" : fmt::format("rank {}", i), commands[i]));
    }
  }
  if (context.json) print_json(plans);
}

ExitCode finish(const Context& context, const fs::path& home, const std::vector<Json>& records, bool interrupted,
                bool detached) {
  if (context.json) {
    print_json(records);
  } else if (detached && !records.empty()) {
    std::string names;
    for (const Json& record : records) names += " " + record.value("name", "");
    print(fmt::format("started{}\nNext: {} status    {} logs -f {}    {} stop{}\n", names, context.command,
                      context.command, records.front().value("name", ""), context.command, names));
  } else if (!records.empty()) {
    print(results_text(home, records, context.command));
  }
  if (interrupted) return ExitCode::kStopped;
  return exit_code_of_runs(records);
}

// What a command behind -- means here: its folder, and the files of its variables. Values of variables that are only
// named stay where they are: supervisors inherit them.
void complete_command(RunOptions& options, const std::vector<std::string>& words) {
  if (words.empty()) throw UserError("the command behind -- has no program");
  options.command = words;
  options.work_dir = fs::absolute(options.work_dir.empty() ? "." : options.work_dir).lexically_normal();
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

// What the files and variables of this command mean must not depend on where the master runs.
Json request_of(RunOptions options) {
  if (options.task.ends_with(".toml")) {
    options.task_text = read_file(options.task, inputs::kTaskFile);
    options.task = fs::path(options.task).filename();
  }
  const bool custom = !options.command.empty();
  if (options.data_dir.empty() && !custom) options.data_dir = environment_variable("MLBENCH_DATA_DIR").value_or("");
  if (!options.data_dir.empty() && !custom) {
    options.data_dir = fs::absolute(options.data_dir).lexically_normal();
  }
  Json request = to_json(options);
  // Of variables that are only named: to the master's memory.
  for (const std::string& one : options.environment) {
    const char* value = std::getenv(one.c_str());
    if (value != nullptr && one.find('=') == std::string::npos) request["env_values"][one] = value;
  }
  return request;
}

// The runs belong to the master: this command only looks on.
ExitCode run_served(const Context& context, const MasterClient& master, const RunOptions& options,
                    const StartOptions& start) {
  if (InterruptGuard::count() > 0) return ExitCode::kStopped;
  const Json answer = master.post("/runs", request_of(options));
  for (const Json& warning : answer.at("warnings")) say("note: " + warning.get<std::string>());
  std::vector<Json> records = answer.at("runs").get<std::vector<Json>>();
  std::vector<std::string> names;
  for (const Json& run : records) names.push_back(run.value("name", ""));
  say(fmt::format("{} {} to the master at {}", fmt::join(names, ", "), names.size() == 1 ? "belongs" : "belong",
                  master.url()));
  if (start.detach) return finish(context, context.home(), records, false, true);
  const bool here = !master.elsewhere();
  bool interrupted = false;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string position = names.size() == 1 ? "" : fmt::format("run {} of {}  ", i + 1, names.size());
    Served served = follow_served(master, names, i, here ? report::runs_dir(context.home()) / names[i] : fs::path(),
                                  position + names[i]);
    records[i] = std::move(served.record);
    interrupted = interrupted || served.interrupted;
    if (served.left) return ExitCode::kStopped;
  }
  return finish(context, context.home(), records, interrupted, false);
}

ExitCode run(const Context& context, RunOptions options, const StartOptions& start) {
  const InterruptGuard guard;
  if (start.local && context.url_option) throw UserError("--local starts the runs here: leave out -u");
  if (!start.local && !start.dry_run) {
    if (const auto master = find_master(context)) {
      if (options.task.empty() && options.command.empty() && !master->elsewhere() && !context.json &&
          is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO)) {
        if (!ask_missing(options, gather_facts(context.worker(), context.home()))) return ExitCode::kStopped;
      }
      return run_served(context, *master, options, start);
    }
  }
  const bool prompting =
      options.task.empty() && !context.json && is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO);
  const bool custom = !options.command.empty();
  const PlanFacts facts = custom ? gather_facts(context.home()) : gather_facts(context.worker(), context.home());
  if (prompting && !custom && !ask_missing(options, facts)) return ExitCode::kStopped;
  std::vector<spec::RunSpec> runs = plan_runs(options, facts);
  std::vector<std::string> names;
  for (spec::RunSpec& run : runs) {
    run.run_dir = report::runs_dir(facts.home) / run.name;
    names.push_back(run.name);
  }
  check_names_free(facts.home, names);
  for (const std::string& warning : plan_warnings(runs, facts.cores)) say("note: " + warning);
  if (start.dry_run) {
    print_dry_run(context, runs, 1, std::nullopt);
    return ExitCode::kOk;
  }

  std::vector<Json> records;
  bool interrupted = false;
  for (const spec::RunSpec& planned : runs) {
    interrupted = InterruptGuard::count() > 0;
    if (interrupted) break;
    const spec::RunSpec made = create_run(facts.home, planned);
    supervise::SupervisorOptions supervisor = supervisor_options(context.worker(), made);
    supervisor.no_wait = options.no_wait;
    if (start.detach) {
      records.push_back(run_detached(made, supervisor));
      continue;
    }
    const std::string position = runs.size() == 1 ? "" : fmt::format("run {} of {}  ", records.size() + 1, runs.size());
    Followed followed = run_attached(made, supervisor, position + describe(made));
    records.push_back(std::move(followed.record));
    interrupted = followed.interrupted;
    if (interrupted || records.back().value("state", "") == "stopped") break;
  }
  if (records.size() < runs.size()) {
    std::vector<std::string> rest(names.begin() + std::ssize(records), names.end());
    say(fmt::format("not started: {}", fmt::join(rest, ", ")));
  }
  return finish(context, facts.home, records, interrupted, start.detach);
}

ExitCode resume(const Context& context, const std::string& name, const std::string& step_text, bool no_wait,
                const StartOptions& start) {
  const InterruptGuard guard;
  const fs::path home = context.home();
  const fs::path run_dir = report::find_run(home, name);
  const Json before = current_record(run_dir);
  const std::string state = before.value("state", "");
  if (report::is_active(before)) {
    throw UserError(fmt::format("run '{}' is {}: follow it with 'mlbench logs -f {}' or stop it with 'mlbench stop {}'",
                                name, state, name, name));
  }
  if (state == "finished") throw UserError(fmt::format("run '{}' is finished: a finished run cannot be resumed", name));

  const std::vector<int64_t> steps = checkpoint_steps(run_dir);
  if (steps.empty()) {
    throw UserError(
        fmt::format("run '{}' has no checkpoint to resume from: start a run with --checkpoint-every STEPS or "
                    "--checkpoint-every epoch",
                    name));
  }
  int64_t step = steps.back();
  if (!step_text.empty()) {
    step = parse_count(step_text, "--step", {0, spec::run_option(&RunOptions::max_steps).range.most});
    if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
      throw UserError(
          fmt::format("run '{}' has no checkpoint at step {}: there are {}", name, step, fmt::join(steps, ", ")));
    }
  }
  if (!fs::exists(context.worker())) {
    throw UserError(
        fmt::format("there is no worker program at {}: build it, or set MLBENCH_WORKER", context.worker().string()));
  }

  const spec::RunSpec spec = read_spec(run_dir);
  for (const std::string& name : spec::names_to_give(spec)) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    throw UserError(
        fmt::format("run '{}' was started with --env {}, whose value is stored nowhere: set {} here, and resume "
                    "again",
                    spec.name, name, name));
  }
  const int64_t segment = std::ssize(before.value("segments", Json::array())) + 1;
  if (start.dry_run) {
    print_dry_run(context, {spec}, segment, step);
    return ExitCode::kOk;
  }
  supervise::SupervisorOptions supervisor = supervisor_options(context.worker(), spec);
  supervisor.no_wait = no_wait;
  supervisor.resume_step = step;
  if (InterruptGuard::count() > 0) return ExitCode::kStopped;
  if (start.detach) return finish(context, home, {run_detached(spec, supervisor)}, false, true);
  Followed followed =
      run_attached(spec, supervisor, fmt::format("{} from step {} (segment {})", describe(spec), step, segment));
  return finish(context, home, {followed.record}, followed.interrupted, false);
}

}  // namespace

void add_run(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "run", "Run a task with one or more worker counts, one after the other");
  auto options = std::make_shared<RunOptions>();
  auto start = std::make_shared<StartOptions>();
  add_run_options(*verb, *options);
  verb->add_flag("--local", start->local, "start the run from here even when a master serves this home")
      ->group("How to run");
  add_start_options(*verb, *start);
  verb->footer(
      "Any command can be a run: mlbench run NAME K... [options] -- PROGRAM ARGUMENT...\n"
      "In its words {rank}, {run_id}, {hosts} and {backend} are filled in; see docs/custom.md");
  add_master_options(*verb, program);
  verb->callback([&program, options, start] {
    program.reads_signals = true;
    program.action = [&program, options, start] {
      if (program.behind) complete_command(*options, *program.behind);
      return run(program.context, *options, *start);
    };
  });
}

void add_resume(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "resume", "Go on with a failed or stopped run from a checkpoint");
  auto name = std::make_shared<std::string>();
  auto step = std::make_shared<std::string>();
  auto start = std::make_shared<StartOptions>();
  auto options = std::make_shared<RunOptions>();
  verb->add_option("NAME-K", *name, "the run")->required();
  verb->add_option("--step", *step, "step of the checkpoint (default: the last)")->type_name("N");
  add_run_option(*verb, *options, &RunOptions::no_wait);
  add_start_options(*verb, *start);
  verb->callback([&program, name, step, options, start] {
    program.reads_signals = true;
    program.action = [&program, name, step, options, start] {
      return resume(program.context, *name, *step, options->no_wait, *start);
    };
  });
}

}  // namespace mlbench::cli
