#pragma once

// Ranks in containers, by podman or docker of the host where they run. The engine starts the guard in the image, and
// the guard the rank: as it is the first process there, its end is that of all that is in the container, whoever killed
// it, and it ends by itself when the supervisor is gone. Network, IPC and the host's user are the container's, too.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"
#include "mlbench/exec/guarded.h"

namespace mlbench::exec {

struct ContainerOptions {
  std::string engine;                       // "podman" or "docker"
  std::string image;                        //
  std::string name = {};                    // of the container; "": as the engine calls it
  std::vector<SharedFolder> folders = {};   // at the same paths within
  std::vector<std::string> variables = {};  // names; their values are in the environment of the engine's command alone
  std::vector<int> cores = {};              // of docker, whose containers are no children of ours; empty: all
  double cpus = 0;                          // that it may keep busy at a time, in thousandths; 0: all
  int64_t memory_bytes = 0;                 // that it may take; 0: all
  std::vector<std::string> gpus = {};       // of its host, by number or name (base/gpus.h); or kAllGpus alone
  // Ranks that one mpirun of this host starts: they have its variables, and see its processes.
  bool below_mpirun = false;
  std::filesystem::path session_folder = {};  // of that mpirun: made before the start, removed with the containers
};
inline constexpr const char* kAllGpus = "all";

// podman where it is in PATH, else docker. UserError naming the packages where neither is.
std::string container_engine();

// "mlbench-RUN-HASH-RANK": of a rank on this host; the same for each segment of a run, and of no two runs.
std::string container_name(const LaunchRequest& request, int rank);

// What docker and podman have to be told of the launcher `mpirun` for a guard that is told of it.
std::span<const char* const> openmpi_variables();

// "podman run ... IMAGE LAUNCHER COMMAND...", the guard being what runs in the image. The working directory is the
// request's; without one, the image's. UserError for the back end mpi unless an mpirun of this host starts the
// containers, and for paths that the engine would take apart.
std::vector<std::string> container_command(const ContainerOptions& options, const LaunchRequest& request,
                                           const std::string& launcher, const std::vector<std::string>& command);

// Looks for the image on this host, and pulls it where it is not there (queued meanwhile, with the engine's words
// where that fails); removes containers of earlier segments; then `launch` starts the ranks, in surroundings that name
// the image which is run, and remove the containers.
using LaunchInImage = std::function<std::unique_ptr<Start>(Surroundings around)>;
std::unique_ptr<Start> start_in_image(ContainerOptions options, const LaunchRequest& request, LaunchInImage launch);

}  // namespace mlbench::exec
