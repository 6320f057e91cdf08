#pragma once

// Each run has one supervisor process, which owns the ranks, their exit codes, the rendezvous server, the lease and the
// record.
// The run folder holds spec.json (frozen), run.json (record), progress.json (what build_record needs), lease, control/,
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
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/record/build_record.h"

namespace mlbench::supervise {

struct SupervisorOptions {
  std::filesystem::path run_dir;
  std::filesystem::path worker;  // the program mlbench-worker; the others lie beside it (catalog/programs)
  std::filesystem::path guard;   // empty: guard_path(). Not passed as an argument
  bool attached = true;          // standard input is connected to the command: "stop\n" asks for a stop, its end
                                 // without that means that the command died (run fails: launcher_lost)
  std::map<std::string, std::string> environment;  // variables added for the supervisor and its ranks; no argument
  bool no_wait = false;                            // do not wait for the core lock
  std::optional<int64_t> resume_step;              // checkpoint to start from, where segment > 1
  std::filesystem::path core_lock;                 // empty: default_core_lock() of core_lock.h
  std::chrono::seconds start_timeout{60};          // time for all ranks to join the rendezvous
};

// Converts options to the argument list behind `mlbench`: "supervise", "--run-dir", ...; and back, from `arguments`
// without "supervise". Throws UserError for an unknown or missing argument.
std::vector<std::string> to_arguments(const SupervisorOptions& options);
SupervisorOptions options_from_arguments(const std::vector<std::string>& arguments);

// The host of each rank where the run names hosts; else empty.
std::optional<std::vector<std::string>> named_places(const spec::RunSpec& run);

// The hosts that a run needs, each once, by the names given; this host is kThisHost. Empty: the run's engine finds
// hosts, and lets the run wait for them.
inline constexpr const char* kThisHost = "";
std::vector<std::string> hosts_needed(const spec::RunSpec& run);
// Whether this host is among those that a run names.
bool names_this_host(const spec::RunSpec& run);

// The mlbench-guard beside this program.
std::filesystem::path guard_path();

// What the ranks of a segment are started with, without what exists only once the segment starts: port, secret, core
// lock, and values of variables that are not text of the specification. Their guard is guard_path(). All ranks are of
// the program that has the run's framework. `worker` is the path of mlbench-worker.
exec::LaunchRequest launch_request(const spec::RunSpec& run, const exec::Executor& executor,
                                   const std::filesystem::path& worker, int64_t segment,
                                   std::optional<int64_t> resume_step, bool oversubscribed);

// The body of `mlbench supervise`: runs one segment to its end (and those for which it is requeued), and writes the
// record. Returns the exit code: kOk (finished), kRunFailed, kStopped, or kIoError where the record cannot be written.
// Throws UserError where the run is active, is finished, or was started before and this is no resume. Catches SIGINT
// and SIGTERM meanwhile (stop).
int supervise(const SupervisorOptions& options, exec::Executor& executor);

// ---- for the command line ------------------------------------------------------------------------------------------

// A started supervisor, as seen by the command that started it.
class SupervisorHandle {
 public:
  // Starts `program supervise ...` (`program` is this mlbench) in a session of its own. An attached supervisor holds a
  // socket to this process, and has its standard error. A detached one writes to RUN/logs/supervisor.log.
  static SupervisorHandle start(const std::filesystem::path& program, const SupervisorOptions& options);
  SupervisorHandle(SupervisorHandle&&) noexcept = default;
  // The supervisor's end; empty while it runs after `timeout`. Where it died without writing its record, this writes
  // the record, as settle_if_lost() does.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds timeout);
  void request_stop();  // as Ctrl-C: the run ends as stopped. Does not wait for that
  pid_t pid() const { return process_.pid(); }

 private:
  SupervisorHandle(ChildProcess process, FileDescriptor control, std::filesystem::path run_dir)
      : process_(std::move(process)), control_(std::move(control)), run_dir_(std::move(run_dir)) {}
  ChildProcess process_;
  FileDescriptor control_;  // our end of an attached supervisor's standard input
  std::filesystem::path run_dir_;
};

// Asks the supervisor of a run folder to stop, from any process of this user, through control/stop. Throws UserError
// where the run is not active.
void request_stop(const std::filesystem::path& run_dir);

// Whether a supervisor holds the lease of the run: on its host by flock, elsewhere if its counter moves within 60 s.
bool lease_held(const std::filesystem::path& run_dir);

// Settles a run whose record says queued or running while no process holds the lease. Takes the lease, and ends ranks
// that are left on this host; they have 5 s to end by themselves. Withdraws the job that an engine holds
// (withdraw_command(), within 30 s). Writes the record as failed (supervisor_lost, exit codes null). Returns whether it
// settled the run. Several processes may call it at once.
bool settle_if_lost(const std::filesystem::path& run_dir);
// The record that settle_if_lost() would write, for a disk that cannot be written. Ends and writes nothing.
record::Record lost_record(const std::filesystem::path& run_dir);

// The command that withdraws the run's job, `mlbench withdraw --run-dir DIR`: only that program knows the executors.
// Empty where there is no mlbench beside this program.
std::vector<std::string> withdraw_command(const std::filesystem::path& run_dir);
// The body of `mlbench withdraw`: withdraws the job that the executor's engine holds of the run, by its progress.json.
// Returns whether there was one, which the command prints. Throws as Executor::withdraw().
bool withdraw_job(const std::filesystem::path& run_dir, exec::Executor& executor);

// ---- the workers' catalog -------------------------------------------------------------------------------------------

// What worker programs can do. Without an answer of the program, `catalog` is empty and `reason` says why.
struct WorkerCatalog {
  std::optional<Json> catalog;  // {"build_id", "frameworks": [{name, available, reason}], "backends": [...], ...}
  std::string reason;
};
// What mlbench-worker, which is at `worker`, prints with --catalog; with the frameworks of all programs, each with the
// name of its `program`. Cached in HOME/cache/catalog/ under the program's build id, so that a program is started only
// the first time. One that lacks a framework is started each time, as what it lacks may be there by then.
WorkerCatalog worker_catalog(const std::filesystem::path& worker, const std::filesystem::path& home);

// How fast the framework computes such work (record/bfloat16_speed.h) in bfloat16 on this host, as its worker program
// measures it in about a second. Kept in the home, so that the program is started only the first time. Not known, with
// the reason, where there is no answer.
record::Bfloat16Speed bfloat16_speed(const std::filesystem::path& worker, const std::filesystem::path& home,
                                     const std::string& framework, std::string_view work);

// Adds to `catalog` the framework of a program that has one of its own. Where `its`, which is what the program says,
// does not list that, the row's reason says why, and how to get the program.
void add_framework(Json& catalog, const catalog::ProgramRow& program, const WorkerCatalog& its);

}  // namespace mlbench::supervise
