#pragma once

// Runs one rank of one run, from its start to its exit code.

#include <cstdint>
#include <optional>
#include <string>

#include "mlbench/base/clock.h"
#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/train/train.h"

namespace mlbench::worker {

struct RankOptions {
  std::string run_dir;
  std::string spec_file;               // "": spec.json in the run's folder
  int64_t segment = 1;                 // the number of this start of the run, from 1
  std::optional<int64_t> resume_step;  // step of the checkpoint to start from; empty: a new run
  train::WrapLoader wrap_loader = {};
  const Clock* clock = nullptr;  // for all times that the rank measures; null: the system's clock
};

// Runs, with the frameworks of `program`, the rank that the environment names (net/launch.h): joins the others,
// prepares the data, trains or measures collectives, and returns the rank's exit code. Every failure is then in the
// rank's spool, and was told to the supervisor where the rank had joined. Without a supervisor, rank 0 writes the run's
// record. Throws UserError for what is wrong before the spool exists: environment or specification.
int run_rank(const catalog::WorkerProgram& program, const RankOptions& options);

}  // namespace mlbench::worker
