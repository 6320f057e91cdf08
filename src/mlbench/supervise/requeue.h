#pragma once

// Whether a run that ended goes on by itself (--requeue), and from where.

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
    std::optional<int64_t> step;  // of the checkpoint from which the next segment begins; empty: there is none
    std::string note;             // what the record says of that; "" where nothing was asked for
    bool wait = false;            // the place is not there yet: it may be soon
  };
  // It goes on where the place of ranks was lost, or, once it was requeued, where they could not start: what was lost
  // may not be back. Counts as one of its times.
  Verdict next(const Outcome& outcome);

 private:
  const spec::RunSpec& run_;
  int64_t times_ = 0;
};

}  // namespace mlbench::supervise
