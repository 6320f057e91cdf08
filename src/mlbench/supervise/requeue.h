#pragma once

// Decides whether a run that ended continues by itself (--requeue), and from which checkpoint.

#include <cstdint>
#include <optional>
#include <string>

#include "mlbench/spec/run_spec.h"
#include "mlbench/supervise/judge.h"

namespace mlbench::supervise {

class Requeue {
 public:
  explicit Requeue(const spec::RunSpec& run) : run_(run) {}

  struct Verdict {
    std::optional<int64_t> step;  // the checkpoint from which the next segment starts; empty: the run does not continue
    std::string note;             // note for the record; "" where --requeue does not apply
    bool wait = false;            // whether to wait first: the place that was lost may be back soon
  };
  // A run continues where the place of ranks was lost. Once requeued, it also continues where ranks could not start,
  // since the lost place may not be back yet. Each requeuing counts toward the limit of --requeue.
  Verdict next(const Outcome& outcome);

 private:
  const spec::RunSpec& run_;
  int64_t times_ = 0;
};

}  // namespace mlbench::supervise
