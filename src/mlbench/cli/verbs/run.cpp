#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "mlbench/base/run_folder.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/follow.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/cli/verbs/timeline_file.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/engine.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/variables.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

void add_start_options(CLI::App& verb, StartOptions& start) {
  verb.add_flag("--detach", start.detach, "start and return; the run survives this terminal");
  verb.add_flag("--dry-run", start.dry_run, "print what would run, and start nothing");
}

void add_emit_option(CLI::App& verb, StartOptions& start) {
  verb.add_option("--emit", start.emit,
                  "print a manifest by which others start the ranks, and start nothing: job, jobset, trainjob, "
                  "mpijob (executor kubernetes)")
      ->type_name("KIND");
}

ExitCode finish(const Context& context, const StartedRuns& started, bool detached) {
  if (context.json) {
    print_json(started.summaries.empty() ? record::to_json(started.records) : started.summaries);
  } else if (detached && !started.names.empty()) {
    const std::string names = fmt::format("{}", fmt::join(started.names, " "));
    print(fmt::format("started {}\nNext: {} status    {} logs -f {}    {} stop {}\n", names, context.command,
                      context.command, started.names.front(), context.command, names));
  } else if (!started.records.empty()) {
    print(results_text(context, started.records));
  }
  if (started.interrupted) return ExitCode::kStopped;
  return exit_code_of_runs(started.records);
}

ExitCode run(const Context& context, const spec::RunOptions& options, const StartOptions& start) {
  const InterruptGuard guard;
  outlive_readers();
  const StartedRuns started = start_runs(context, options, start, context.json ? RowFormat::kNone : RowFormat::kTable);
  return started.ends_with ? *started.ends_with : finish(context, started, start.detach);
}

ExitCode resume(const Context& context, const std::string& name, const std::string& step_text, bool no_wait,
                const StartOptions& start) {
  const InterruptGuard guard;
  outlive_readers();
  const fs::path home = context.home();
  const fs::path run_dir = report::find_run(home, name);
  const record::Record before = home::current_record(run_dir);
  const std::string& state = before.state;
  if (record::is_active(before)) {
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
    step = parse_count(step_text, "--step", {0, spec::run_option(&spec::RunOptions::max_steps).range.most});
    if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
      throw UserError(
          fmt::format("run '{}' has no checkpoint at step {}: there are {}", name, step, fmt::join(steps, ", ")));
    }
  }

  const spec::RunSpec spec = home::read_spec(run_dir);
  require_worker(context, spec.framework);
  for (const std::string& name : spec::names_to_give(spec)) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    throw UserError(
        fmt::format("run '{}' was started with --env {}, whose value is stored nowhere: set {} here, and resume "
                    "again",
                    spec.name, name, name));
  }
  const int64_t segment = std::ssize(before.segments) + 1;
  if (start.dry_run) {
    print_dry_run(context, {spec}, segment, step);
    return ExitCode::kOk;
  }
  plan::refuse_impossible({spec});
  supervise::SupervisorOptions supervisor = supervisor_options(context.worker(), spec);
  supervisor.no_wait = no_wait;
  supervisor.resume_step = step;
  if (InterruptGuard::count() > 0) return ExitCode::kStopped;
  if (start.detach) return finish(context, {.names = {spec.name}, .records = {run_detached(spec, supervisor)}}, true);
  Followed followed =
      run_attached(spec, supervisor, fmt::format("{} from step {} (segment {})", describe(spec), step, segment));
  return finish(context, {.names = {spec.name}, .records = {followed.record}, .interrupted = followed.interrupted},
                false);
}

}  // namespace

void add_run(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "run", "Run a task with one or more worker counts, one after the other");
  auto options = std::make_shared<spec::RunOptions>();
  auto start = std::make_shared<StartOptions>();
  add_run_options(*verb, *options);
  verb->add_flag("--local", start->local, "start the run from here even when a master serves this home")
      ->group("How to run");
  add_timeline_option(*verb, start->timeline);
  add_wide_option(*verb, program);
  add_start_options(*verb, *start);
  add_emit_option(*verb, *start);
  verb->footer(
      "Any command can be a run: mlbench run NAME K... [options] -- PROGRAM ARGUMENT...\n"
      "In its words {rank}, {run_id}, {hosts} and {backend} are filled in; see docs/custom.md");
  add_master_options(*verb, program);
  const auto action = [&program, options, start, verb](const Context& context) {
    start->executor_given = verb->count("--executor") > 0;
    if (program.behind) complete_command(*options, *program.behind);
    return run(context, *options, *start);
  };
  act(*verb, program, action, Signals::kRead);
}

void add_resume(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "resume", "Go on with a failed or stopped run from a checkpoint");
  auto name = std::make_shared<std::string>();
  auto step = std::make_shared<std::string>();
  auto start = std::make_shared<StartOptions>();
  auto options = std::make_shared<spec::RunOptions>();
  verb->add_option("NAME-K", *name, "the run")->required();
  verb->add_option("--step", *step, "step of the checkpoint (default: the last)")->type_name("N");
  add_run_option(*verb, *options, &spec::RunOptions::no_wait);
  add_wide_option(*verb, program);
  add_start_options(*verb, *start);
  const auto action = [name, step, options, start](const Context& context) {
    return resume(context, *name, *step, options->no_wait, *start);
  };
  act(*verb, program, action, Signals::kRead);
}

}  // namespace mlbench::cli
