#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::slurm {

// Ranks as the tasks of one Slurm job (22.05 or later; docs/executors/slurm.md): sbatch is given a script that lies in
// the run's folder (logs/slurm.seg-S.sbatch), and srun in it starts a guard per rank. Of the options: ranks_per_host,
// slurm, setup, scratch. UserError for a --slurm-option that is none, or that mlbench decides itself.
std::unique_ptr<Executor> make(const Json& engine);
// Where Slurm's commands are.
Availability available();

}  // namespace mlbench::exec::slurm
