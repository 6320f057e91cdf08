#pragma once

// The runs of a study (`sweep`, `tune`, `study`), made one after the other. A finished run of the home with the same
// specification is kept, so that a study that was interrupted goes on when the same is typed again.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/cli/verbs/timeline_file.h"
#include "mlbench/plan/plan.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

// Throws UserError where the chosen master is elsewhere, unless runs are to start from here: a study reads the folders
// of its runs. `study` is its name for people, such as "a sweep".
void refuse_master_elsewhere(const Context& context, const StartOptions& start, std::string_view study);

class KeptRuns {
 public:
  // Asks the worker and the home for the facts of planning. `context` must outlive the object.
  KeptRuns(const Context& context, const StartOptions& start);

  // Throws UserError for options that cannot be run.
  spec::RunSpec plan(spec::RunOptions options) const;
  // The record of the newest finished run with that specification. Throws UserError when a run with it is under way.
  std::optional<record::Record> finished_like(const spec::RunSpec& planned) const;

  struct Made {
    std::vector<record::Record> records;  // of one run, none where it was refused
    std::string refused;                  // why the last one was refused; "" where none was
  };
  // Keeps the run that is there, else makes it and waits for its end. Precondition: the caller has an InterruptGuard.
  Made make(const spec::RunOptions& options);
  // Makes each repeat of a point, counted from 0, as make() does, until one is interrupted.
  Made make_repeats(int64_t repeats, const std::function<spec::RunOptions(int64_t repeat)>& options_of);
  // Makes nothing. Returns the records of the runs that have finished, and appends the plans of the others to
  // `missing`, each once.
  std::vector<record::Record> look_at(const std::vector<spec::RunOptions>& wanted,
                                      std::vector<spec::RunSpec>& missing) const;
  // A run was stopped, or the user interrupted: nothing more is to be made.
  bool interrupted() const { return interrupted_; }

 private:
  const Context& context_;
  const StartOptions start_;
  const TimelineFiles timelines_;
  const plan::PlanFacts facts_;
  bool interrupted_ = false;
};

}  // namespace mlbench::cli
