#pragma once

// What `run` and `bench` have in common: runs are made of options and followed to their end, by the master where one
// serves, else here.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/collectives_view.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

struct StartOptions {
  bool dry_run = false, detach = false, local = false;
  bool executor_given = false;  // else the chosen cluster may say it, or the master
  std::string emit;             // a kind of manifest that is printed instead; "": none
  std::string timeline;  // the file that a trace of the ranks is to be written to; "": HOROVOD_TIMELINE's, or none
};

struct StartedRuns {
  std::vector<std::string> names = {};
  std::vector<record::Record> records =
      {};                          // as they stand now: ended, or detached; none of what a master goes on with
  Json summaries = Json::array();  // of the runs that a master goes on with
  bool interrupted = false;
  // The verb ends with it at once: nothing ran, or the runs are left to the master.
  std::optional<ExitCode> ends_with = {};
};

// One run after the other, under an InterruptGuard of the caller's; then their timelines are written. A missing task is
// asked for on a terminal. `rows`: how those of benchmarks of collectives are printed. UserError for what cannot be run
// as asked.
StartedRuns start_runs(const Context& context, spec::RunOptions options, const StartOptions& start, RowFormat rows);

// "r-2: fashion-mnist, 2 workers x 1 thread, torch, gloo, closed"
std::string describe(const spec::RunSpec& run);
// [{"name", "spec", "commands": a text per rank or launcher}]
Json plans_of(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
              std::optional<int64_t> resume_step);
// One JSON object by which others can start the runs: a manifest, or a List of several. UserError where the executor
// has none of that kind, or a value of theirs may stand in none.
void print_manifest(const Context& context, const std::vector<spec::RunSpec>& runs, const std::string& kind);
// The runs, and the commands that they would start, as text or JSON.
void print_dry_run(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
                   std::optional<int64_t> resume_step);

}  // namespace mlbench::cli
