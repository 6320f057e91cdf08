#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "mlbench/base/choices.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long a supervisor that took its run may need to write its name.
constexpr seconds kOwnerPatience{10};
constexpr seconds kWithdrawPatience{30};

// The state in the record; "" where there is no record.
std::string recorded_state(const std::filesystem::path& run_dir) {
  if (!std::filesystem::exists(record_path(run_dir))) return "";
  const Json record = read_json_file(record_path(run_dir), inputs::kRecord);
  const auto state = record.find("state");
  if (!record.is_object() || state == record.end() || !state->is_string()) {
    throw UserError(record_path(run_dir).string() + ": the record has no state");
  }
  return state->get<std::string>();
}

// Ends ranks that are left. Guards end them when their supervisor is gone, but not where the guard was stopped.
void end_ranks_of(const LeaseContent& lease) {
  if (lease.boot_id != boot_id()) return;
  const auto wait_for_all = [&](milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (const ProcessIdentity& rank : lease.ranks) {
      while (alive(rank) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(20));
    }
  };
  wait_for_all(seconds(5));
  for (const ProcessIdentity& rank : lease.ranks) {
    if (alive(rank)) kill(-rank.pid, SIGKILL);
  }
  wait_for_all(seconds(5));
}

record::Failure lost_failure(const std::filesystem::path& run_dir, const std::optional<LeaseContent>& owner) {
  record::Failure failure;
  failure.kind = "supervisor_lost";
  failure.message = "the supervisor of this run disappeared; nobody saw how the ranks ended";
  if (!owner) return failure;
  failure.host = owner->host;
  if (owner->holder.pid != 0) {
    failure.message = "the supervisor of this run (process " + std::to_string(owner->holder.pid) + " on " +
                      owner->host + ") disappeared; nobody saw how the ranks ended";
    return failure;
  }
  // It ran to its last line, and could not write its record.
  failure.message = "the supervisor of this run (on " + owner->host + ") ended without its record";
  if (disk_is_full(run_dir)) {
    failure.kind = "disk_full";
    failure.message += ": the disk that holds " + run_dir.string() +
                       " is full; free space there, then: mlbench resume " + run_dir.filename().string();
  }
  return failure;
}

// The progress of a run that has no owner any more. The run may have ended in progress.json, though not yet in the
// record.
record::RunProgress settled_progress(const std::filesystem::path& run_dir, const std::optional<LeaseContent>& owner) {
  record::RunProgress progress = read_progress(run_dir).value_or(record::RunProgress());
  if (!record::is_active_state(std::string(record::name_of(progress.state)))) return progress;
  progress.state = record::RunState::kFailed;
  progress.failure = lost_failure(run_dir, owner);
  progress.finished_at = format_utc(std::chrono::system_clock::now());
  // A segment that was over before was not lost.
  if (!progress.segments.empty() && progress.segments.back().finished_at.empty()) {
    record::Segment& segment = progress.segments.back();
    segment.finished_at = progress.finished_at;
    segment.failure = progress.failure;
    segment.exit_codes.assign(segment.exit_codes.size(), std::nullopt);
  }
  return progress;
}

// Withdraws the job that an engine holds of the run, if any, and says for the message what became of it.
std::string withdrawn(const std::filesystem::path& run_dir, const Json& allocation) {
  const std::string name = text_member(allocation, "job");
  if (name.empty()) return "";
  const std::string job = "its job " + name + " of " + text_member(allocation, "engine");
  std::string why = "there is no mlbench beside this program";
  try {
    ProcessOptions withdraw;
    withdraw.arguments = withdraw_command(run_dir);
    if (!withdraw.arguments.empty()) {
      const ProcessOutput said = run_process(withdraw, kWithdrawPatience);
      if (said.end.code == 0) return said.standard_output.empty() ? "" : "; " + job + " was withdrawn";
      why = said.standard_error;
      while (why.ends_with('\n')) why.pop_back();
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  return "; " + job + " was not withdrawn, and may still come to run: " + why;
}

// `without_record`: also settles a run without a record, for a supervisor of ours that died before its first record.
bool settle(const std::filesystem::path& run_dir, bool without_record) {
  const auto lost = [&] {
    const std::string state = recorded_state(run_dir);
    return record::is_active_state(state) || (without_record && state.empty());
  };
  if (!lost() || lease_held(run_dir)) return false;
  auto lease = Lease::take(run_dir);
  if (!lease || !lost()) return false;

  const auto owner = read_lease(run_dir);
  if (owner) end_ranks_of(*owner);
  remove_unfinished(checkpoints_dir(run_dir));
  const auto before = read_progress(run_dir);
  record::RunProgress progress = settled_progress(run_dir, owner);
  if (progress.failure && before && record::is_active_state(std::string(record::name_of(before->state)))) {
    progress.failure->message += withdrawn(run_dir, before->allocation);
  }
  write_progress(run_dir, progress);
  write_json_file(record_path(run_dir), record::to_json(record_of(run_dir, progress)), inputs::kRecord);
  return true;
}

}  // namespace

std::vector<std::string> to_arguments(const SupervisorOptions& options) {
  std::vector<std::string> arguments = {"supervise", "--run-dir", options.run_dir.string(), "--worker",
                                        options.worker.string()};
  const auto add = [&](const char* name, const std::string& value) {
    arguments.emplace_back(name);
    arguments.push_back(value);
  };
  if (!options.core_lock.empty()) add("--core-lock", options.core_lock.string());
  if (options.resume_step) add("--resume-step", std::to_string(*options.resume_step));
  if (options.start_timeout != SupervisorOptions().start_timeout) {
    add("--start-timeout", std::to_string(options.start_timeout.count()));
  }
  if (options.no_wait) arguments.emplace_back("--no-wait");
  if (!options.attached) arguments.emplace_back("--detached");
  return arguments;
}

SupervisorOptions options_from_arguments(const std::vector<std::string>& arguments) {
  SupervisorOptions options;
  const auto number = [](const std::string& name, const std::string& text, const Range& range) {
    return parse_count(text, "supervise: " + name, range);
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) throw UserError("supervise: " + name + " needs a value");
      return arguments[++i];
    };
    if (name == "--run-dir") {
      options.run_dir = value();
    } else if (name == "--worker") {
      options.worker = value();
    } else if (name == "--core-lock") {
      options.core_lock = value();
    } else if (name == "--resume-step") {
      options.resume_step = number(name, value(), {0, 1e12});
    } else if (name == "--start-timeout") {
      options.start_timeout = seconds(number(name, value(), {0, 86400}));
    } else if (name == "--no-wait") {
      options.no_wait = true;
    } else if (name == "--detached") {
      options.attached = false;
    } else {
      refuse_unknown(
          "argument of supervise", name,
          {"--run-dir", "--worker", "--core-lock", "--resume-step", "--start-timeout", "--no-wait", "--detached"});
    }
  }
  if (options.run_dir.empty() || options.worker.empty()) {
    throw UserError("supervise: --run-dir DIR and --worker FILE are needed (`mlbench run` starts it with both)");
  }
  return options;
}

SupervisorHandle SupervisorHandle::start(const std::filesystem::path& program, const SupervisorOptions& options) {
  ProcessOptions process;
  process.arguments = to_arguments(options);
  process.arguments.insert(process.arguments.begin(), program.string());
  process.new_session = true;
  process.environment = options.environment;
  FileDescriptor input, control;
  if (options.attached) {
    // A socket pair rather than a pipe: writing to a dead supervisor must not raise SIGPIPE in the command.
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw_system_error("cannot create a socket pair", errno);
    }
    input = FileDescriptor(ends[0]);
    control = FileDescriptor(ends[1]);
    process.standard_input = input.get();
  } else {
    std::filesystem::create_directories(logs_dir(options.run_dir));
    process.output = supervisor_log_path(options.run_dir);
  }
  return {ChildProcess::start(process), std::move(control), options.run_dir};
}

std::optional<ProcessEnd> SupervisorHandle::wait(milliseconds timeout) {
  auto end = process_.wait(timeout);
  if (end) settle(run_dir_, true);
  return end;
}

void SupervisorHandle::request_stop() {
  if (control_) {
    // The word waits in the socket while the supervisor is still starting, when a signal would kill it.
    send(control_.get(), "stop\n", 5, MSG_NOSIGNAL);
  } else {
    process_.signal(SIGTERM);
  }
}

void request_stop(const std::filesystem::path& run_dir) {
  // A supervisor that has just taken the lease removes a stop from before its time, and then writes its name.
  const auto deadline = std::chrono::steady_clock::now() + kOwnerPatience;
  for (;;) {
    if (!lease_held(run_dir)) {
      const std::string state = recorded_state(run_dir);
      throw UserError("run " + run_dir.filename().string() + " is not active" +
                      (state.empty() ? "" : ": it is " + state));
    }
    const auto owner = read_lease(run_dir);
    if (owner && (owner->boot_id != boot_id() || alive(owner->holder))) break;
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  std::filesystem::create_directories(control_dir(run_dir));
  write_file_atomically(stop_path(run_dir), "stop\n");
}

std::vector<std::string> withdraw_command(const std::filesystem::path& run_dir) {
  const std::filesystem::path program = program_path().parent_path() / "mlbench";
  if (!std::filesystem::exists(program)) return {};
  return {program.string(), "withdraw", "--run-dir", run_dir.string()};
}

bool withdraw_job(const std::filesystem::path& run_dir, exec::Executor& executor) {
  const auto progress = read_progress(run_dir);
  const spec::RunSpec run = spec::read_run_spec(spec_path(run_dir));
  return progress && progress->allocation.is_object() && executor.withdraw(run.name, progress->allocation);
}

bool lease_held(const std::filesystem::path& run_dir) { return lease_held(run_dir, kLeaseStandstill); }

bool settle_if_lost(const std::filesystem::path& run_dir) { return settle(run_dir, false); }

record::Record lost_record(const std::filesystem::path& run_dir) {
  return record_of(run_dir, settled_progress(run_dir, read_lease(run_dir)));
}

}  // namespace mlbench::supervise
