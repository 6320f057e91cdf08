#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/proc.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::filesystem::path record_path(const std::filesystem::path& run_dir) { return run_dir / "run.json"; }

// "" where there is no record.
std::string recorded_state(const std::filesystem::path& run_dir) {
  if (!std::filesystem::exists(record_path(run_dir))) return "";
  return read_json_file(record_path(run_dir)).value("state", "");
}

bool active_state(const std::string& state) {
  return state == spec::name_of(spec::RunState::kQueued) || state == spec::name_of(spec::RunState::kRunning);
}

bool alive(const ProcessIdentity& identity) {
  const auto process = process_status(identity.pid);
  return process && process->start_time == identity.start_time && process->state != 'Z' && process->state != 'X';
}

// Ranks end by themselves when their supervisor is gone; one that is stopped or stuck cannot, and would keep the cores.
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

// `without_record`: a supervisor of ours died before its first record.
bool settle(const std::filesystem::path& run_dir, bool without_record) {
  const auto lost = [&] {
    const std::string state = recorded_state(run_dir);
    return active_state(state) || (without_record && state.empty());
  };
  if (!lost() || lease_held(run_dir)) return false;
  auto lease = Lease::take(run_dir);
  if (!lease || !lost()) return false;

  spec::RunProgress progress = read_progress(run_dir).value_or(spec::RunProgress());
  const auto owner = read_lease(run_dir);
  if (owner) end_ranks_of(*owner);
  // Its last words may have been the end of the run, only not in the record yet.
  if (active_state(std::string(spec::name_of(progress.state)))) {
    progress.state = spec::RunState::kFailed;
    progress.failure.emplace();
    progress.failure->kind = "supervisor_lost";
    progress.failure->message = "the supervisor of this run disappeared; nobody saw how the ranks ended";
    if (owner) {
      progress.failure->host = owner->host;
      progress.failure->message = "the supervisor of this run (process " + std::to_string(owner->holder.pid) + " on " +
                                  owner->host + ") disappeared; nobody saw how the ranks ended";
    }
    progress.finished_at = format_utc(std::chrono::system_clock::now());
    if (!progress.segments.empty()) {
      spec::SegmentInfo& segment = progress.segments.back();
      segment.finished_at = progress.finished_at;
      segment.exit_codes.assign(segment.exit_codes.size(), std::nullopt);
    }
    write_progress(run_dir, progress);
  }
  write_json_file(record_path(run_dir), record_of(run_dir, progress));
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
      throw UserError("supervise: unknown argument '" + name +
                      "': valid are --run-dir DIR, --worker FILE, --core-lock FILE, --resume-step N, "
                      "--start-timeout SECONDS, --no-wait, --detached");
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
      throw IoError("cannot create a socket pair: " + errno_text(errno));
    }
    input = FileDescriptor(ends[0]);
    control = FileDescriptor(ends[1]);
    process.standard_input = input.get();
  } else {
    std::filesystem::create_directories(options.run_dir / "logs");
    process.output = options.run_dir / "logs" / "supervisor.log";
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
    // Waits in the socket while the supervisor is still starting; a signal would kill it then.
    send(control_.get(), "stop\n", 5, MSG_NOSIGNAL);
  } else {
    process_.signal(SIGTERM);
  }
}

void request_stop(const std::filesystem::path& run_dir) {
  if (!lease_held(run_dir)) {
    const std::string state = recorded_state(run_dir);
    throw UserError("run " + run_dir.filename().string() + " is not active" +
                    (state.empty() ? "" : ": it is " + state));
  }
  std::filesystem::create_directories(stop_file(run_dir).parent_path());
  write_file_atomically(stop_file(run_dir), "stop\n");
}

bool lease_held(const std::filesystem::path& run_dir) { return lease_held(run_dir, kLeaseStandstill); }

bool settle_if_lost(const std::filesystem::path& run_dir) { return settle(run_dir, false); }

}  // namespace mlbench::supervise
