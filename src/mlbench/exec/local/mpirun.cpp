#include "mlbench/exec/local/mpirun.h"

#include <fmt/format.h>

#include "mlbench/base/environment.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/linked.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec::local {

ProcessOptions mpirun(const LaunchRequest& request, const std::vector<std::vector<std::string>>& containers) {
  std::vector<std::string> command = {"mpirun"};
  const auto parameter = [&](const char* name, const std::string& value) {
    command.insert(command.end(), {"--mca", name, value});
  };
  // mpirun takes this host alone, with a slot per rank, whatever batch system this command itself runs under.
  const auto start_here = [&](int ranks) {
    command.insert(command.end(),
                   {"-n", std::to_string(ranks), "--host", fmt::format("localhost:{}", request.workers)});
  };
  if (containers.empty()) start_here(request.workers);
  command.insert(command.end(), {"--bind-to", "none"});
  if (request.workers > available_cores()) command.emplace_back("--oversubscribe");
  parameter("ras", "^slurm,gridengine,tm,lsf,alps");
  parameter("plm", "isolated");
  parameter("oob_tcp_if_include", "lo");
  // Shared memory, without a look for networks.
  parameter("pml", "ob1");
  parameter("btl", "self,vader");
  if (containers.empty()) {
    command.insert(command.end(), {request.guard.string(), "openmpi"});
    for (std::string& word : guard::shielded(request.command)) command.push_back(std::move(word));
  } else {
    parameter("orte_tmpdir_base", session_folder(request));
    // Containers forbid single copies, which look into another process.
    parameter("btl_vader_single_copy_mechanism", "none");
  }
  // Ranks are numbered in the order of their commands.
  for (size_t rank = 0; rank < containers.size(); ++rank) {
    if (rank > 0) command.emplace_back(":");
    start_here(1);
    command.insert(command.end(), containers[rank].begin(), containers[rank].end());
  }

  ProcessOptions options;
  options.arguments = std::move(command);
  options.environment = guard::shielded(request.environment);
  if (gives_own_gpu(request)) {
    gpu_of_rank(visible_gpus(), request.workers - 1);
    options.environment[variables::kGuardOwnGpu] = "1";
  }
  options.environment["OMPI_ALLOW_RUN_AS_ROOT"] = options.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  if (containers.empty()) options.working_directory = request.working_directory;  // mpirun gives ranks its own
  options.output = launcher_log_path(request.log_dir, "mpirun", request.segment);
  return options;
}

std::filesystem::path session_folder(const LaunchRequest& request) { return folder_here(request) / "openmpi"; }

}  // namespace mlbench::exec::local
