#include "mlbench/cli/follow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/terminal/progress_view.h"
#include "mlbench/home/runs.h"
#include "mlbench/record/events.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/progress.h"
#include "mlbench/report/records.h"
#include "mlbench/report/summary.h"
#include "mlbench/spec/variables.h"
#include "mlbench/supervise/core_lock.h"
#include "mlbench/supervise/progress.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {
constexpr std::chrono::milliseconds kFollowPoll{250};
constexpr std::chrono::milliseconds kRemoteFollowPoll{1000};
// When the cores are free, a queued run has its ranks within this time.
constexpr std::chrono::milliseconds kQueuedPatience{1500};

int64_t next_segment(const spec::RunSpec& run, const supervise::SupervisorOptions& options) {
  if (!options.resume_step) return 1;
  return std::ssize(report::read_record(run.run_dir).segments) + 1;
}

// "r-2 waits for the cores: another run holds FILE (process 123 of user anna: mlbench); --no-wait starts at once"
std::string why_it_waits(const std::string& name, const std::string& waits) {
  const bool cores = waits.find("for the cores") != std::string::npos;
  return fmt::format("{} {}{}", name, waits.empty() ? "waits" : printable(waits),
                     cores ? "; --no-wait starts at once" : "");
}

// The supervisor's words for what a run waits for.
std::string last_note(const std::vector<std::string>& notes) { return notes.empty() ? "" : notes.back(); }

// Why a run without its goal was over; "" where it is not known.
std::string why_over(const std::string& reason) {
  if (reason == "epochs") return "all epochs are done";
  if (!reason.starts_with("max_")) return reason;
  std::string flag = "--" + reason;
  std::ranges::replace(flag, '_', '-');
  return flag + " ended the run";
}

// "r-2  finished: goal not reached: Prec@1 84.20 was measured because --max-steps ended the run"
std::string ending(const record::Record& record, const report::Progress& progress) {
  const report::RunFigures figures = report::figures_of(record);
  const std::string state = figures.state;
  std::string line = fmt::format("{}  {}", figures.name, state);
  const std::string reason = progress.end ? record::get(*progress.end, record::member::kReason) : "";
  if (state == "finished" && figures.time_to_goal_s) {
    line += fmt::format(": goal reached in {} s", report::format_seconds(figures.time_to_goal_s));
  } else if (state == "finished" && figures.has_goal) {
    const std::string why = why_over(reason);
    if (!why.empty() && !figures.evaluation.empty() && report::ended_at_limit(record)) {
      return fmt::format("{}: goal not reached: {} was measured because {}", line, figures.evaluation, why);
    }
    line += ": goal not reached" + (why.empty() ? "" : ": " + why);
  }
  if (state == "failed" && record.failure) line += ": " + record.failure->message;
  if (!figures.evaluation.empty()) line += ", " + figures.evaluation;
  return line;
}

// What a run that is stopped now leaves.
std::string what_stays(const spec::RunSpec& run) {
  return spec::trains(run) ? "what was measured is kept; ranks that train write a checkpoint"
                           : "what was measured is kept";
}

// ": mlbench resume r-2 goes on from step 120", for a run that trains, was stopped or failed, and lies at `run_dir`;
// else "". Some failures say so themselves.
std::string way_on(const fs::path& run_dir, const record::Record& record) {
  const bool failed = record.state == "failed";
  if ((!failed && record.state != "stopped") || run_dir.empty() || !spec::trains(home::read_spec(run_dir))) return "";
  const std::string command = "mlbench resume " + record.name;
  if (record.failure && record.failure->message.find(command) != std::string::npos) return "";
  const std::vector<int64_t> steps = checkpoint_steps(run_dir);
  if (steps.empty()) return failed ? "" : ": there is no checkpoint to resume from";
  return fmt::format(": {} goes on from step {}", command, steps.back());
}
}  // namespace

Followed run_attached(const spec::RunSpec& run, const supervise::SupervisorOptions& options, const std::string& title,
                      RowFormat rows) {
  const SystemClock clock;
  const bool terminal = is_terminal(STDERR_FILENO);
  ProgressView view(stderr, terminal);
  view.note(title);
  CollectivesView table(rows, [&] { view.clear(); });

  report::ProgressReader reader(run.run_dir, 0, next_segment(run, options));
  reader.each_row(
      [&](const record::CollectiveRow& row) { table.row(row, [&] { return home::current_record(run.run_dir); }); });
  const TimePoint start = clock.now();
  supervise::SupervisorHandle supervisor = supervise::SupervisorHandle::start(program_path(), options);
  int handled = 0;
  bool readable = true, said_why = false;
  for (;;) {
    const auto end = supervisor.wait(kFollowPoll);
    if (readable) {
      try {
        reader.update();
      } catch (const std::exception& error) {
        readable = is_transient(error);
        if (!readable) view.note(error.what());  // the run goes on, and its record will tell the outcome
      }
    }
    if (end) break;
    for (const int asked = InterruptGuard::count(); handled < asked; ++handled) {
      if (handled == 0) {
        view.note(fmt::format("stopping {}: {} (Ctrl-C again kills it)", run.name, what_stays(run)));
        supervisor.request_stop();
      } else if (handled == 1) {
        view.note(fmt::format("killing {}", run.name));
        kill(supervisor.pid(), SIGKILL);
      }
    }
    Phase phase = Phase::kStarted;
    std::string waits;
    if (reader.progress().segment == 0) {
      // The record says "queued" until ranks run, which may take a while after the wait.
      const auto supervised = supervise::read_progress(run.run_dir);
      const bool queued = supervised && supervised->state == record::RunState::kQueued;
      phase = queued && clock.now() - start >= kQueuedPatience ? Phase::kWaiting : Phase::kQueued;
      if (queued) waits = last_note(supervised->notes);
      if (phase == Phase::kWaiting && !std::exchange(said_why, true)) view.note(why_it_waits(run.name, waits));
    }
    view.show(run, reader.progress(), phase, to_seconds(clock.now() - start), waits);
  }
  record::Record record = home::current_record(run.run_dir);
  table.finish(record);
  view.note(ending(record, reader.progress()) + way_on(run.run_dir, record));
  return {std::move(record), handled > 0};
}

Served follow_served(const MasterClient& master, const std::vector<std::string>& names, size_t index,
                     const fs::path& run_dir, const std::string& title, RowFormat rows) {
  const std::string& name = names[index];
  const SystemClock clock;
  ProgressView view(stderr, is_terminal(STDERR_FILENO));
  view.note(title);
  const bool here = !run_dir.empty();
  CollectivesView table(rows, [&] { view.clear(); });
  std::optional<report::ProgressReader> reader;
  std::optional<spec::RunSpec> run;
  if (here) {
    reader.emplace(run_dir);
    reader->each_row(
        [&](const record::CollectiveRow& row) { table.row(row, [&] { return home::current_record(run_dir); }); });
    run = home::read_spec(run_dir);
  }
  const report::Progress nothing;
  const TimePoint start = clock.now();
  bool asked = false;
  for (;;) {
    const int interrupts = InterruptGuard::count();
    if (interrupts > 0 && !asked) {
      asked = true;
      view.note(fmt::format("asking the master to stop {} (Ctrl-C again leaves it running)", name));
      for (size_t i = index; i < names.size(); ++i) {
        try {
          master.post(path_of_run(names[i]) + "/stop", Json::object());
        } catch (const UserError&) {
          // The run has ended by itself.
        }
      }
    } else if (interrupts > 1) {
      view.note(fmt::format("{} is left to the master at {}", name, master.url()));
      return {{}, true, true};
    }
    // A folder here is read even when the master does not answer any more.
    const record::Record record = here ? home::current_record(run_dir) : remote_record(master, name);
    if (here) reader->update();
    if (!here) table.update(record);
    if (!record::is_active(record)) {
      table.finish(record);
      view.note(ending(record, here ? reader->progress() : nothing) + way_on(run_dir, record));
      return {record, asked, false};
    }
    if (here) {
      Phase phase = Phase::kStarted;
      const std::string waits = record.notes.empty() ? "waits in the queue of the master" : record.notes.back();
      if (reader->progress().segment == 0 && record.state == "queued") {
        phase = clock.now() - start < kQueuedPatience ? Phase::kQueued : Phase::kWaiting;
      }
      view.show(*run, reader->progress(), phase, to_seconds(clock.now() - start), waits);
    }
    std::this_thread::sleep_for(here ? kFollowPoll : kRemoteFollowPoll);
  }
}

record::Record run_detached(const spec::RunSpec& run, supervise::SupervisorOptions options) {
  options.attached = false;
  supervise::SupervisorHandle supervisor = supervise::SupervisorHandle::start(program_path(), options);
  for (int tries = 0; tries < 100; ++tries) {
    if (const auto end = supervisor.wait(std::chrono::milliseconds(50))) {
      const record::Record record = home::current_record(run.run_dir);
      if (!record::is_active(record)) return record;
      throw IoError(fmt::format("the supervisor of {} ended at once (exit code {}): {}", run.name, end->code,
                                fmt::join(report::last_lines(supervisor_log_path(run.run_dir), 3), " / ")));
    }
    // The record of a run that is resumed says that the run is over until the supervisor changes it.
    if (supervise::lease_held(run.run_dir) && record::is_active(report::read_record(run.run_dir))) break;
  }
  return home::current_record(run.run_dir);
}

std::string results_text(const Context& context, const std::vector<record::Record>& records) {
  std::string out = "\n" + report::results_table(records, context.table_style());
  for (const record::Record& record : records) {
    out += report::operations_table(record);
    if (const std::string failure = report::failure_text(record); !failure.empty()) out += "\n" + failure;
  }
  std::vector<std::string> names;
  for (const record::Record& record : records) names.push_back(record.name);
  const std::string &last = names.back(), &command = context.command;
  out += fmt::format("\nResults: {}/{}\n", runs_dir(context.home()).string(),
                     names.size() == 1 ? last : fmt::format("{{{}}}", fmt::join(names, ",")));
  out += fmt::format("Next:    {} status {}    (clocks, evaluations, where the time went)\n", command, last);
  out += fmt::format("         {} download {} -o {}.zip\n", command, last, last);
  if (names.size() > 1) {
    const std::string request = names.front().substr(0, names.front().rfind('-'));
    out += fmt::format("         {} charts -f {}    (figures over all of these runs)\n", command, request);
    const std::string base = home::without_repeat(names.front());
    const auto other =
        std::ranges::find_if(names, [&](const auto& name) { return home::without_repeat(name) != base; });
    out +=
        other == names.end()
            ? fmt::format("         {} compare {} OTHER    (whether a difference to another run is real)\n", command,
                          base)
            : fmt::format("         {} compare {} {}    (whether their difference is real)\n", command, base, *other);
  }
  return out;
}

ExitCode exit_code_of_runs(const std::vector<record::Record>& records) {
  ExitCode code = ExitCode::kOk;
  for (const record::Record& record : records) {
    if (record.state == "stopped") return ExitCode::kStopped;
    if (record.state == "failed" || report::wrong_rows(record) > 0) code = ExitCode::kRunFailed;
  }
  return code;
}

supervise::SupervisorOptions supervisor_options(const fs::path& worker, const spec::RunSpec& run) {
  supervise::SupervisorOptions options;
  options.run_dir = run.run_dir;
  options.worker = worker;
  options.core_lock = supervise::default_core_lock();
  for (const std::string& name : spec::names_to_give(run)) {  // also variables that children do not inherit
    if (const char* value = std::getenv(name.c_str())) options.environment[name] = value;
  }
  return options;
}

}  // namespace mlbench::cli
