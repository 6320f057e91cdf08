#pragma once

// Starts runs, follows them with live progress until they have ended or the user interrupts, and reports their results.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/terminal/collectives_view.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

struct Followed {
  record::Record record;  // the final one
  bool interrupted = false;
};
// Writes `title`, starts an attached supervisor, shows progress on standard error, and returns when the run has ended.
// The first interrupt asks the run to stop, the second kills its supervisor. The last line says from which step a
// stopped run can go on. The rows of a benchmark of collectives go
// to standard output as they come (collectives_view.h), also where the run fails or is stopped.
Followed run_attached(const spec::RunSpec& run, const supervise::SupervisorOptions& options, const std::string& title,
                      RowFormat rows = RowFormat::kNone);

struct Served {
  record::Record record;  // the final one; empty where the run was `left`
  bool interrupted = false;
  bool left = false;  // the run was left to the master and may go on
};
// Follows the run `names[index]` of a master until it is over. `run_dir` is the run's folder where it can be read here,
// else empty. The first interrupt asks the master to stop this run and those behind it in `names`; the second leaves
// them to the master. Rows are shown as by run_attached().
Served follow_served(const MasterClient& master, const std::vector<std::string>& names, size_t index,
                     const std::filesystem::path& run_dir, const std::string& title, RowFormat rows = RowFormat::kNone);

// Starts a detached supervisor and returns the record once it owns the run. Throws IoError, with the last lines of its
// log, when it ended before that.
record::Record run_detached(const spec::RunSpec& run, supervise::SupervisorOptions options);

// The table of results, failures, where the results lie and what to type next. Precondition: there is at least one
// record.
std::string results_text(const Context& context, const std::vector<record::Record>& records);

// kStopped when a run was stopped; else kRunFailed when one failed or collectives gave wrong results; else kOk.
ExitCode exit_code_of_runs(const std::vector<record::Record>& records);

// The options of a supervisor for `run`, with values of this process's environment that the run's ranks are given.
supervise::SupervisorOptions supervisor_options(const std::filesystem::path& worker, const spec::RunSpec& run);

}  // namespace mlbench::cli
