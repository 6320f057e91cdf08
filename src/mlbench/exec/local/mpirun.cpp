#include "mlbench/exec/local/mpirun.h"

#include <fmt/format.h>

#include "mlbench/base/environment.h"
#include "mlbench/base/gpus.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec::local {

ProcessOptions mpirun(const LaunchRequest& request) {
  std::vector<std::string> command = {"mpirun", "-n", std::to_string(request.workers)};
  const auto parameter = [&](const char* name, const char* value) {
    command.insert(command.end(), {"--mca", name, value});
  };
  // This host alone, with a slot per rank, whatever batch system this command itself runs under.
  command.insert(command.end(), {"--host", fmt::format("localhost:{}", request.workers), "--bind-to", "none"});
  if (request.workers > available_cores()) command.emplace_back("--oversubscribe");
  parameter("ras", "^slurm,gridengine,tm,lsf,alps");
  parameter("plm", "isolated");
  parameter("oob_tcp_if_include", "lo");
  // Shared memory, without a look for networks.
  parameter("pml", "ob1");
  parameter("btl", "self,vader");
  command.insert(command.end(), {request.guard.string(), "openmpi"});
  for (std::string& word : guard::shielded(request.command)) command.push_back(std::move(word));

  ProcessOptions options;
  options.arguments = std::move(command);
  options.environment = guard::shielded(request.environment);
  if (gives_own_gpu(request)) {
    gpu_of_rank(visible_gpus(), request.workers - 1);
    options.environment[guard::kOwnGpuVariable] = "1";
  }
  options.environment["OMPI_ALLOW_RUN_AS_ROOT"] = options.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  options.working_directory = request.working_directory;  // mpirun gives ranks its own
  options.output = request.log_dir / fmt::format("mpirun.seg-{}.log", request.segment);
  return options;
}

}  // namespace mlbench::exec::local
