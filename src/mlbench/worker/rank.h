#pragma once

// One rank of one run, from its start to its exit code.

#include <cstdint>
#include <optional>
#include <string>

#include "mlbench/base/clock.h"
#include "mlbench/train/train.h"

namespace mlbench::worker {

struct RankOptions {
  std::string run_dir;
  std::string spec_file;               // "": spec.json of the run's folder
  int64_t segment = 1;                 // number of this start of the run, from 1
  std::optional<int64_t> resume_step;  // checkpoint to start from
  train::WrapLoader wrap_loader = {};
  const Clock* clock = nullptr;  // of all times that the rank measures; null: the system's
};

// Who this rank is, the environment says (net/launch.h). Joins the others, prepares the data, trains, and returns the
// exit code of its end; every failure is in its spool by then and was told to the supervisor. Without one, rank 0
// writes the run's record. Throws UserError for what is wrong before the spool exists: environment, specification.
int run_rank(const RankOptions& options);

}  // namespace mlbench::worker
