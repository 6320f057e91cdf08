#pragma once

// One supervisor process per run: owns the ranks, their exit codes, the rendezvous server, the lease and the record.
// Run folder: spec.json (frozen), run.json (record), progress.json (what build_record needs), lease, control/,
// logs/, spool/, checkpoints/.

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/build_record.h"

namespace mlbench::supervise {

struct SupervisorOptions {
  std::filesystem::path run_dir;
  std::filesystem::path worker;  // mlbench-worker
  std::filesystem::path guard;   // empty: guard_path(). No argument
  bool attached = true;          // standard input is a pipe from the command: "stop\n" asks for a stop,
                                 // EOF without it means the command died (run fails: launcher_lost)
  std::map<std::string, std::string> environment;  // of the supervisor and so of ranks, beside ours; no argument
  bool no_wait = false;                            // do not queue on the core lock
  std::optional<int64_t> resume_step;              // segment > 1: checkpoint to start from
  std::filesystem::path core_lock;                 // empty: default_core_lock() of core_lock.h
  std::chrono::seconds start_timeout{60};          // until all ranks joined the rendezvous
};

// The argument list behind `mlbench`: "supervise", "--run-dir", ... and back (`arguments` without "supervise";
// UserError for what is unknown or missing).
std::vector<std::string> to_arguments(const SupervisorOptions& options);
SupervisorOptions options_from_arguments(const std::vector<std::string>& arguments);

// The host of each rank, where the run names them.
std::optional<std::vector<std::string>> named_places(const spec::RunSpec& run);

// The hosts that a run needs, each once, by the names that it was given; this one is kThisHost. Empty: its engine finds
// them, and lets it wait for them.
inline constexpr const char* kThisHost = "";
std::vector<std::string> hosts_needed(const spec::RunSpec& run);
// Whether this host is among those that a run names.
bool names_this_host(const spec::RunSpec& run);

// The mlbench-guard beside this program.
std::filesystem::path guard_path();

// What the ranks of a segment are started with, less what only exists once it starts (port, secret, core lock, the
// values of variables that are no text of the specification). Their guard is guard_path().
exec::LaunchRequest launch_request(const spec::RunSpec& run, const exec::Executor& executor,
                                   const std::filesystem::path& worker, int64_t segment,
                                   std::optional<int64_t> resume_step, bool oversubscribed);

// Body of `mlbench supervise`: runs one segment to its end, writes the record, returns the exit code: kOk (finished),
// kRunFailed, kStopped, or kIoError when the record cannot be written. UserError when the run is active already, was
// started already (and this is no resume), or is finished. Catches SIGINT and SIGTERM while it runs (stop).
int supervise(const SupervisorOptions& options, exec::Executor& executor);

// ---- for the command line ------------------------------------------------------------------------------------------

// A started supervisor as seen by the command that started it.
class SupervisorHandle {
 public:
  // Starts `program supervise ...` (program = this mlbench) in a session of its own. Attached: holding our pipe, with
  // our standard error. Detached: it writes to RUN/logs/supervisor.log.
  static SupervisorHandle start(const std::filesystem::path& program, const SupervisorOptions& options);
  SupervisorHandle(SupervisorHandle&&) noexcept = default;
  // Empty while it runs. When it died without writing its record, writes it (settle_if_lost).
  std::optional<ProcessEnd> wait(std::chrono::milliseconds timeout);
  void request_stop();  // as Ctrl-C: the run ends as stopped. Does not wait
  pid_t pid() const { return process_.pid(); }

 private:
  SupervisorHandle(ChildProcess process, FileDescriptor control, std::filesystem::path run_dir)
      : process_(std::move(process)), control_(std::move(control)), run_dir_(std::move(run_dir)) {}
  ChildProcess process_;
  FileDescriptor control_;  // write end of an attached supervisor's standard input
  std::filesystem::path run_dir_;
};

// Asks the supervisor of a run folder to stop, from any process of this user (detached runs): through control/stop.
// UserError when the run is not active.
void request_stop(const std::filesystem::path& run_dir);

// Whether a supervisor holds the lease of the run (same host: flock; elsewhere: its counter moved within 60 s).
bool lease_held(const std::filesystem::path& run_dir);

// If the record says queued or running but nobody holds the lease: takes it, ends ranks that are left on this host
// (they have 5 s to end by themselves), withdraws the job that an engine holds (within 30 s: withdraw_command()), and
// writes the record as failed (supervisor_lost, exit codes null). Returns whether it did. Safe to call from several
// processes at once.
bool settle_if_lost(const std::filesystem::path& run_dir);
// The record that it would write, where the disk refuses. Nothing is ended or written.
record::Record lost_record(const std::filesystem::path& run_dir);

// Its executor is not known here, but to the program: `mlbench withdraw --run-dir DIR`. Empty where there is no mlbench
// beside this program.
std::vector<std::string> withdraw_command(const std::filesystem::path& run_dir);
// The body of that, which says on standard output where there was one: what the executor's engine holds of the run, by
// its progress.json. As Executor::withdraw().
bool withdraw_job(const std::filesystem::path& run_dir, exec::Executor& executor);

// ---- the worker's catalog -------------------------------------------------------------------------------------------

// What the worker at `worker` can do, as it prints itself with --catalog; cached in HOME/cache/catalog/ under its build
// id, so the worker is only started the first time. Empty (with the reason) when there is no worker.
struct WorkerCatalog {
  std::optional<Json> catalog;  // {"build_id", "frameworks": [{name, available, reason}], "backends": [...], ...}
  std::string reason;
};
WorkerCatalog worker_catalog(const std::filesystem::path& worker, const std::filesystem::path& home);

}  // namespace mlbench::supervise
