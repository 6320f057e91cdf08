#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/row.h"
#include "mlbench/exec/slurm/options.h"

namespace mlbench::exec::slurm {

// Makes the executor whose ranks are the tasks of one Slurm job (22.05 or later; docs/executors/slurm.md). sbatch is
// given a script in the run's folder (logs/slurm.seg-S.sbatch), and srun in the script starts a guard per rank.
// `engine` has the options of slurm/options.h. Throws UserError as read_options().
std::unique_ptr<Executor> make(const Json& engine);
// Whether Slurm's commands are in PATH.
Availability available();

inline constexpr ExecutorRow kExecutor = {"slurm", "a job of Slurm", kFacts, kOptions, available, make};

}  // namespace mlbench::exec::slurm
