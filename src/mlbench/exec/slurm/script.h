#pragma once

// The batch script that Slurm is given to run.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"
#include "mlbench/exec/slurm/options.h"

namespace mlbench::exec::slurm {

// Whether `image` is, by its name, a file of Apptainer's, which Apptainer runs. All other images are pyxis'.
bool is_of_apptainer(const std::string& image);

// The option KEY or KEY=VALUE as a line "#SBATCH --KEY=VALUE" of a batch script, with VALUE quoted where sbatch would
// split it. Throws UserError for what is no option, has a line break or another control character in it, or is
// mlbench's own to decide.
std::string option_line(const std::string& option);

// A path as a file-name pattern of sbatch. In a pattern, sbatch replaces "%j" and its like, and "%%" by "%". Where a
// backslash stands in it, sbatch replaces nothing but "\\" by "\".
std::string for_file_pattern(const std::string& path);

// The request as the job has it: with the run's folder on the hosts, and the additional variables that Slurm's tasks
// need.
LaunchRequest on_hosts(const LaunchRequest& request, const Options& engine);

std::string job_name(const std::string& run_name);

std::filesystem::path script_path(const LaunchRequest& request);  // logs/slurm.seg-S.sbatch
std::filesystem::path log_path(const LaunchRequest& request);     // logs/slurm.seg-S.log

// The batch script. `request` must come from on_hosts(). The paths of script and log are those on the supervisor's
// host.
std::string batch_script(const LaunchRequest& request, const Options& engine);

// One of Slurm's commands, run without the variables of this process that would change what it does: SBATCH_PARTITION,
// SLURM_CLUSTERS, those of a job in which this process itself runs. Variables that say where Slurm is stay.
std::vector<std::string> slurm_command(std::vector<std::string> command);

}  // namespace mlbench::exec::slurm
