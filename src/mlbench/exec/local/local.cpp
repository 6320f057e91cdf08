#include "mlbench/exec/local/local.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/cgroups.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/options.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/container.h"
#include "mlbench/exec/guarded.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/local/mpirun.h"
#include "mlbench/exec/local/options.h"
#include "mlbench/exec/obstacles.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec::local {
namespace {

std::map<std::string, std::string> environment_of(const LaunchRequest& request, int rank) {
  std::map<std::string, std::string> environment = request.environment;
  environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
  environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = std::to_string(request.workers);
  if (gives_own_gpu(request)) environment[kVisibleGpus] = gpu_of_rank(visible_gpus(), rank);
  if (request.rank_words) {
    std::vector<LocalPlace> places;  // all ranks are on this host
    for (int each = 0; each < request.workers; ++each) places.push_back({each, request.workers});
    add_horovod(environment, horovod_places(places)[static_cast<size_t>(rank)]);
  }
  return environment;
}

std::vector<std::string> words_of(const LaunchRequest& request, int rank) {
  std::vector<std::string> words = request.command;
  if (request.rank_words) fill_in(words, "{rank}", std::to_string(rank));
  return words;
}

std::vector<std::string> command_of(const LaunchRequest& request, int rank) {
  std::vector<std::string> command = {request.guard.string(), "direct"};
  for (std::string& word : words_of(request, rank)) command.push_back(std::move(word));
  return command;
}

// Containers are in control groups beside that of this process. They get its limits, except from podman without root,
// which may not be able to set limits.
ContainerOptions container_of(const std::string& image, double cpus) {
  ContainerOptions options{.engine = container_engine(), .image = image, .cpus = cpus};
  const std::vector<int> cores = allowed_cores();
  if (std::ssize(cores) < sysconf(_SC_NPROCESSORS_ONLN)) options.cores = cores;
  if (options.engine == "podman" && geteuid() != 0) return options;
  if (const auto quota = cgroup_cpu_quota()) options.cpus = options.cpus > 0 ? std::min(options.cpus, *quota) : *quota;
  if (const auto memory = cgroup_memory()) options.memory_bytes = memory->limit_bytes;
  return options;
}

// Names the GPU of a rank's container, which is the first and only one there.
void set_only_gpu(std::map<std::string, std::string>& environment, const LaunchRequest& request) {
  if (gives_own_gpu(request)) environment[kVisibleGpus] = "0";
}

// The variables of the engine's own command, which passes them on by name.
std::map<std::string, std::string> environment_in_image(const LaunchRequest& request, int rank) {
  std::map<std::string, std::string> environment = environment_of(request, rank);
  set_only_gpu(environment, request);
  return guard::shielded(environment);
}

// The GPUs of a rank's container. A worker has all that this process may use, and picks its own. The GPUs that --env
// names are numbers among all of this host.
std::vector<std::string> gpus_in_image(const LaunchRequest& request, int rank) {
  if (!request.gpu) return {};
  if (request.environment.contains(kVisibleGpus)) return {kAllGpus};
  std::vector<std::string> gpus = visible_gpus();
  const std::string own = gpu_of_rank(gpus, rank);
  if (gives_own_gpu(request)) return {own};
  return gpus;
}

bool under_mpirun(const LaunchRequest& request) { return request.by_mpirun; }

// The variables that are the same for all ranks.
std::map<std::string, std::string> common_environment_in_image(const LaunchRequest& request) {
  std::map<std::string, std::string> environment = request.environment;
  set_only_gpu(environment, request);
  return environment;
}

std::vector<std::string> command_in_image(ContainerOptions container, const LaunchRequest& request, int rank) {
  container.name = container_name(request, rank);
  container.gpus = gpus_in_image(request, rank);
  container.folders = {{folder_here(request), true}};
  container.folders.insert(container.folders.end(), request.folders.begin(), request.folders.end());
  container.below_mpirun = under_mpirun(request);
  const auto environment = container.below_mpirun ? guard::shielded(common_environment_in_image(request))
                                                  : environment_in_image(request, rank);
  for (const auto& [name, value] : environment) container.variables.push_back(name);
  container.variables.emplace_back(variables::kGuard);
  if (!container.below_mpirun) return container_command(container, request, "direct", words_of(request, rank));
  return container_command(container, request, "openmpi", guard::shielded(request.command));
}

ProcessOptions mpirun_of_containers(const ContainerOptions& container, LaunchRequest request) {
  std::vector<std::vector<std::string>> commands;
  for (int rank = 0; rank < request.workers; ++rank) commands.push_back(command_in_image(container, request, rank));
  request.environment = common_environment_in_image(request);
  return mpirun(request, commands);
}

// Where the ranks are: all on this host, on whatever cores this process has. Each rank chooses to which of these it
// binds.
std::vector<Placement> placement_of(const LaunchRequest& request) {
  std::vector<Placement> places;
  const std::vector<int> cores = allowed_cores();
  const std::vector<std::string> gpus = gives_own_gpu(request) ? visible_gpus() : std::vector<std::string>();
  for (int rank = 0; rank < request.workers; ++rank) {
    places.push_back({.host = host_name(), .rank = rank, .local_rank = rank, .cores = cores});
    if (!gpus.empty()) places.back().gpu = gpu_number(gpu_of_rank(gpus, rank));
  }
  return places;
}

class LocalExecutor final : public Executor {
 public:
  explicit LocalExecutor(std::string image) : image_(std::move(image)) {}

  std::string name() const override { return "local"; }

  ExecutorFacts facts() const override { return kFacts; }

  bool limits_cpus() const override { return !image_.empty(); }

  std::string obstacle(const LaunchRequest& request) const override {
    const std::string lacks = under_mpirun(request) ? missing_program(kMpirunPrograms, kMpirunPackage) : "";
    if (!lacks.empty()) return fmt::format("back end {}: {}", request.backend, lacks);
    if (std::string reason = missing_gpu(request); !reason.empty()) return reason;
    return missing_interface(request);
  }

  std::unique_ptr<Start> start(const LaunchRequest& request) override {
    if (const std::string reason = obstacle(request); !reason.empty()) throw UserError(reason);
    if (!image_.empty()) return start_containers(request);
    std::vector<ProcessOptions> launchers;
    if (under_mpirun(request)) {
      launchers.push_back(mpirun(request));
    } else {
      for (int rank = 0; rank < request.workers; ++rank) {
        ProcessOptions options;
        options.arguments = command_of(request, rank);
        options.environment = environment_of(request, rank);
        options.working_directory = request.working_directory;
        options.output = rank_log_path(request.log_dir, request.segment, rank, LogStream::kStderr);
        launchers.push_back(std::move(options));
      }
    }
    return start_guarded(request, placement_of(request), std::move(launchers));
  }

  std::vector<std::string> describe(const LaunchRequest& request) const override {
    if (!image_.empty()) {
      std::vector<std::string> lines;
      if (under_mpirun(request)) {
        const ProcessOptions options = mpirun_of_containers(container(request), request);
        return {command_line(options.environment, options.arguments)};
      }
      for (int rank = 0; rank < request.workers; ++rank) {
        lines.push_back(
            command_line(environment_in_image(request, rank), command_in_image(container(request), request, rank)));
      }
      return lines;
    }
    if (under_mpirun(request)) {
      const ProcessOptions options = mpirun(request);
      return {command_line(options.environment, options.arguments)};
    }
    std::vector<std::string> lines;
    for (int rank = 0; rank < request.workers; ++rank) {
      lines.push_back(command_line(environment_of(request, rank), command_of(request, rank)));
    }
    return lines;
  }

 private:
  ContainerOptions container(const LaunchRequest& request) const { return container_of(image_, request.cpus); }

  std::unique_ptr<Start> start_containers(LaunchRequest request) const {
    request.in_image = true;
    ContainerOptions options = container(request);
    std::vector<ProcessOptions> launchers;
    if (under_mpirun(request)) {
      launchers.push_back(mpirun_of_containers(options, request));
      options.session_folder = session_folder(request);
    } else {
      for (int rank = 0; rank < request.workers; ++rank) {
        ProcessOptions launcher;
        launcher.arguments = command_in_image(options, request, rank);
        launcher.environment = environment_in_image(request, rank);
        launcher.output = rank_log_path(request.log_dir, request.segment, rank, LogStream::kStderr);
        launchers.push_back(std::move(launcher));
      }
    }
    return start_in_image(options, request, [request, launchers = std::move(launchers)](Surroundings around) {
      return start_guarded(request, placement_of(request), launchers, std::move(around));
    });
  }

  const std::string image_;  // "": ranks are programs of this host
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Executor> make(const Json& engine) {
  OptionReader reader("executor 'local'", engine);
  std::string image = reader.text("image", "");
  reader.finish();
  return std::make_unique<LocalExecutor>(std::move(image));
}

}  // namespace mlbench::exec::local
