#pragma once

// What `run`, `bench` and `sweep` have in common: they make runs from options and follow them to their end. The master
// makes the runs where one serves, else this process does.

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
  bool executor_given = false;  // false: the chosen cluster or the master may set the executor
  std::string emit;             // the kind of manifest that is printed instead; "": none
  std::string timeline;         // the file for a trace of the ranks; "": that of HOROVOD_TIMELINE, or none
};

struct StartedRuns {
  std::vector<std::string> names = {};
  std::vector<record::Record> records =
      {};                          // of runs that have ended or are detached; none of runs that a master goes on with
  Json summaries = Json::array();  // of the runs that a master goes on with
  bool interrupted = false;
  // The exit code with which the verb must end at once: nothing ran, or the runs are left to the master.
  std::optional<ExitCode> ends_with = {};
};

// Takes the words of a command, and makes its folder and the files of its variables absolute. Values of variables
// that are only named are not taken, since supervisors inherit them. Throws UserError where such a variable is not set,
// and where there is no word.
void complete_command(spec::RunOptions& options, const std::vector<std::string>& words);

// Makes the runs of `options`, one after the other, and writes their timelines. On a terminal it asks what to run where
// nothing says that. `rows` says how rows of benchmarks of collectives are printed. Throws UserError for options that
// cannot be run. Precondition: the caller has an InterruptGuard.
StartedRuns start_runs(const Context& context, spec::RunOptions options, const StartOptions& start, RowFormat rows);

// A run in words: "r-2: fashion-mnist, 2 workers x 1 thread, torch, gloo, closed".
std::string describe(const spec::RunSpec& run);
// [{"name", "spec", "commands": a text per rank or launcher, "obstacle": what keeps it from starting here, or null}]
Json plans_of(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
              std::optional<int64_t> resume_step);
// Prints one JSON object by which other programs can start the runs: a manifest of `kind`, or a List of several. Throws
// UserError where the executor has no such manifest, and where a run has a secret variable or --requeue, which no
// manifest can hold.
void print_manifest(const Context& context, const std::vector<spec::RunSpec>& runs, const std::string& kind);
// Prints the runs, and the commands that they would start, as text or JSON.
void print_dry_run(const Context& context, const std::vector<spec::RunSpec>& runs, int64_t segment,
                   std::optional<int64_t> resume_step);

}  // namespace mlbench::cli
