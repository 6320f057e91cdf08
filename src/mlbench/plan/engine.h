#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

// The executor of the runs that are planned, with its options.
class PlanEngine {
 public:
  // Throws UserError for an unknown executor, and for options that it does not take.
  explicit PlanEngine(const spec::RunOptions& options);

  // The largest number of ranks on one host, where a run has `ranks` ranks. Empty where the engine decides.
  std::optional<int64_t> most_on_a_host(int64_t ranks) const;
  exec::ExecutorFacts facts() const { return executor_->facts(); }
  // Throws UserError for a run that the engine would refuse.
  void check(spec::RunSpec run) const;

  const Json options;  // for RunSpec::engine
  const double cpus;   // for RunSpec::cpus

 private:
  std::unique_ptr<exec::Executor> executor_;
};

// Why this host cannot start the run now; "" where nothing known keeps it from that (exec::Executor::obstacle). Asks
// engines, so it may take seconds.
std::string obstacle_to(const spec::RunSpec& run);

// What people are told of a run with the obstacle `reason`.
std::string cannot_start(const spec::RunSpec& run, const std::string& reason);

// Throws UserError with cannot_start() where there is an obstacle to one of the runs.
void refuse_impossible(const std::vector<spec::RunSpec>& runs);

}  // namespace mlbench::plan
