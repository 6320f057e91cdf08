#pragma once

// Runs segments one after the other, with live progress, until they have ended or the user interrupts.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/terminal/collectives_view.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

// Starts the supervisor (attached), shows progress on standard error, and returns the final record. The first
// interrupt asks the run to stop, the second kills it. `title` is said before. Of a benchmark of collectives the rows
// go to standard output as they come (collectives_view.h), also those of a run that fails or is stopped.
struct Followed {
  record::Record record;
  bool interrupted = false;
};
Followed run_attached(const spec::RunSpec& run, const supervise::SupervisorOptions& options, const std::string& title,
                      RowFormat rows = RowFormat::kNone);

// Follows a run of a master until it is over: `names[index]`, in `run_dir` where that can be read (else empty). The
// first interrupt asks the master to stop it and the runs behind it, the second leaves them to it. Rows as above.
struct Served {
  record::Record record;
  bool interrupted = false;
  bool left = false;  // it may go on
};
Served follow_served(const MasterClient& master, const std::vector<std::string>& names, size_t index,
                     const std::filesystem::path& run_dir, const std::string& title, RowFormat rows = RowFormat::kNone);

// Starts the supervisor on its own and returns once it owns the run. IoError with its log when it did not.
record::Record run_detached(const spec::RunSpec& run, supervise::SupervisorOptions options);

// Results table, failures, where the results lie and what to type next (`command` is mlbench as the user called it).
std::string results_text(const std::filesystem::path& home, const std::vector<record::Record>& records,
                         const std::string& command);

// kOk, kRunFailed when one failed or measured collectives whose results were wrong, kStopped when one was stopped.
ExitCode exit_code_of_runs(const std::vector<record::Record>& records);

// Options of a supervisor for a run of this program.
supervise::SupervisorOptions supervisor_options(const std::filesystem::path& worker, const spec::RunSpec& run);

}  // namespace mlbench::cli
