#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/exec/executor.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

// The executor of the runs that are planned, and what it is told.
class PlanEngine {
 public:
  // UserError for an executor that there is not, and for options that it does not take.
  explicit PlanEngine(const spec::RunOptions& options);

  // Of so many ranks. Empty: the engine decides.
  std::optional<int64_t> most_on_a_host(int64_t ranks) const;
  exec::ExecutorFacts facts() const { return executor_->facts(); }
  // UserError for what the engine would refuse.
  void check(spec::RunSpec run) const;

  const Json options;  // as it is told
  const double cpus;   // of RunSpec

 private:
  std::unique_ptr<exec::Executor> executor_;
};

}  // namespace mlbench::plan
