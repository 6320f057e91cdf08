#pragma once

// Ranks in containers, run by podman or docker on the host of the ranks. The engine starts the guard in the image, and
// the guard starts the rank. The guard is the container's first process: whoever ends it, its end is that of everything
// in the container. The guard also ends by itself when the supervisor is gone. A container has its host's network and
// IPC, and the user id of the process that starts it.

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
  std::string image;                        // a reference, as registry.example/team/image:1
  std::string name = {};                    // the container's; "": the engine chooses one
  std::vector<SharedFolder> folders = {};   // mounted at the same paths in the container
  std::vector<std::string> variables = {};  // names; the values are in the environment of the engine's command
  std::vector<int> cores = {};              // for docker; podman's containers inherit this process's cores; empty: all
  double cpus = 0;                          // most CPUs that it keeps busy at a time, as 2.5; 0: no limit
  int64_t memory_bytes = 0;                 // memory limit; 0: none
  std::vector<std::string> gpus = {};       // GPUs of its host, by number or name (base/gpus.h), or kAllGpus alone
  // Whether one mpirun of this host starts the containers of all ranks. They then have the variables of mpirun, and see
  // the processes of the host.
  bool below_mpirun = false;
  std::filesystem::path session_folder = {};  // of that mpirun; made before the start, removed with the containers
};
inline constexpr const char* kAllGpus = "all";

// Returns "podman" where that is in PATH, else "docker". Throws UserError, naming the packages to install, where
// neither is.
std::string container_engine();

// The name of a rank's container on this host: "mlbench-RUN-IDENTITY-RANK". It is the same for each segment of a run,
// and no two runs share it.
std::string container_name(const LaunchRequest& request, int rank);

// The names of the variables by which mpirun tells a guard its rank. podman and docker must be told to pass them on.
std::span<const char* const> openmpi_variables();

// The command "podman run ... IMAGE LAUNCHER COMMAND...", which runs the guard in the image. The working directory is
// the request's, or else the image's. Throws UserError for the back end mpi unless `options.below_mpirun`, and for
// docker below an mpirun. Throws it also for paths with a colon, where the engine splits them, and for text that is no
// UTF-8.
std::vector<std::string> container_command(const ContainerOptions& options, const LaunchRequest& request,
                                           const std::string& launcher, const std::vector<std::string>& command);

// Starts ranks in an image. The start pulls the image where this host lacks it: meanwhile it is kQueued, and it fails
// with the engine's words where the pull does. Then it removes containers of earlier segments and calls `launch`, which
// starts the ranks. The Surroundings that `launch` gets name the image that is run, and remove the containers at the
// end.
using LaunchInImage = std::function<std::unique_ptr<Start>(Surroundings around)>;
std::unique_ptr<Start> start_in_image(ContainerOptions options, const LaunchRequest& request, LaunchInImage launch);

}  // namespace mlbench::exec
