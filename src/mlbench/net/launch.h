#pragma once

// Who am I among the ranks: read from the environment that a launcher left. First match wins; the caller logs `source`.
// Order: RANK/WORLD_SIZE (torchrun and our executors), OMPI_COMM_WORLD_*, PMIX_RANK, PMI_*, MV2_COMM_WORLD_*, SLURM_*,
// JSM_NAMESPACE_*, PALS_*, JOB_COMPLETION_INDEX, HOROVOD_*.

#include <functional>
#include <optional>
#include <string>

namespace mlbench::net {

struct LaunchInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string master_address;      // "" if the launcher names none
  int master_port = 0;             // 0 if none
  std::string source;              // "RANK/WORLD_SIZE", "OMPI_COMM_WORLD_*", ..., "single process"
};

using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;

// UserError when the variables of the first match contradict each other or are no numbers (names variable and value).
LaunchInfo detect_launch(const EnvironmentReader& read);

// First host of a Slurm node list such as "n[1-3,7],gpu05". UserError when malformed.
std::string first_host_of_nodelist(const std::string& nodelist);

}  // namespace mlbench::net
