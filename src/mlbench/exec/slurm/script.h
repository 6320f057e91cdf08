#pragma once

// What Slurm is given to run.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"
#include "mlbench/exec/slurm/options.h"

namespace mlbench::exec::slurm {

// By the form of its name: a file of Apptainer's, which runs it; all other images are pyxis'.
bool is_of_apptainer(const std::string& image);

// KEY or KEY=VALUE as a line "#SBATCH --KEY=VALUE" of a batch script, VALUE quoted where sbatch would take it apart.
// UserError for what is no option, has a line break or another control character in it, or is mlbench's own to decide.
std::string option_line(const std::string& option);

// A path as sbatch's file names have it. sbatch replaces "%j" and its like there, "%%" by "%", and where a backslash
// stands nothing but "\\" by "\".
std::string for_file_pattern(const std::string& path);

// The request as the job has it: with the run's folder as it is on the hosts, and what Slurm's tasks need beside.
LaunchRequest on_hosts(const LaunchRequest& request, const Options& engine);

std::string job_name(const std::string& run_name);

std::filesystem::path script_path(const LaunchRequest& request);  // logs/slurm.seg-S.sbatch
std::filesystem::path log_path(const LaunchRequest& request);     // logs/slurm.seg-S.log

// The batch script. `request`: of on_hosts(); the paths of script and log are those of the supervisor's host.
std::string batch_script(const LaunchRequest& request, const Options& engine);

// One of Slurm's commands, without the variables of this process that would change what it does: SBATCH_PARTITION,
// SLURM_CLUSTERS, those of a job in which this process runs itself. Those that say where Slurm is stay.
std::vector<std::string> slurm_command(std::vector<std::string> command);

}  // namespace mlbench::exec::slurm
