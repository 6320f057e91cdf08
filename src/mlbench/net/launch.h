#pragma once

// Tells a process which rank it is, from the environment that a launcher left. The first launcher of this table that
// matches counts; the caller logs `source`. A launcher matches when its rank variable is set (an empty value counts as
// unset):
//
//   source                  rank                   size                      local rank, local size
//   RANK/WORLD_SIZE         RANK                   WORLD_SIZE                LOCAL_RANK, LOCAL_WORLD_SIZE
//   OMPI_COMM_WORLD_*       OMPI_COMM_WORLD_RANK   ..._SIZE                  ..._LOCAL_RANK, ..._LOCAL_SIZE
//   PMIX_RANK               PMIX_RANK              that of the launcher around it: PMI_SIZE, SLURM_*, PALS_*, JSM_*
//   PMI_*                   PMI_RANK               PMI_SIZE                  MPI_LOCALRANKID, MPI_LOCALNRANKS
//   MV2_COMM_WORLD_*        MV2_COMM_WORLD_RANK    ..._SIZE                  ..._LOCAL_RANK, ..._LOCAL_SIZE
//   SLURM_*                 SLURM_PROCID           SLURM_STEP_NUM_TASKS,     SLURM_LOCALID,
//                                                  SLURM_NTASKS              SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID
//   JSM_NAMESPACE_*         JSM_NAMESPACE_RANK     ..._SIZE                  ..._LOCAL_RANK, ..._LOCAL_SIZE
//   PALS_*                  PALS_RANKID            PALS_SIZE, PMI_SIZE       PALS_LOCAL_RANKID, PALS_LOCAL_SIZE
//   JOB_COMPLETION_INDEX    JOB_COMPLETION_INDEX   WORLD_SIZE                0, 1 (a pod is a host)
//   HOROVOD_*               HOROVOD_RANK           HOROVOD_SIZE              HOROVOD_LOCAL_RANK, HOROVOD_LOCAL_SIZE
//
// With every launcher, MASTER_ADDR and MASTER_PORT name the rendezvous. Without MASTER_ADDR, under Slurm, the
// rendezvous is at the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST. GLOO_SOCKET_IFNAME names the interface,
// or an address of this host, at which the other ranks reach this one; without that variable, it is the address from
// which this host reaches the rendezvous.

#include <functional>
#include <optional>
#include <string>

namespace mlbench::net {

struct LaunchInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // local rank 0 of 1 when the launcher does not say
  int local_size = 1;
  std::string master_address;  // "" if the launcher names none
  int master_port = 0;         // 0 if the launcher names none
  std::string interface;       // "" if none is named
  std::string source;          // "RANK/WORLD_SIZE", "OMPI_COMM_WORLD_*", ..., "single process"
};

using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;

// Throws UserError naming variable and value when the variables of the first match contradict each other or are no
// numbers, or when the number of ranks is missing.
LaunchInfo detect_launch(const EnvironmentReader& read);

// The first host of a Slurm node list such as "n[1-3,7],gpu05". Throws UserError when the list is malformed.
std::string first_host_of_nodelist(const std::string& nodelist);

}  // namespace mlbench::net
