#pragma once

// The variables by which Horovod finds its ranks where no horovodrun started them: of a custom run, whose script may
// call hvd.init(). What the user gave the run by --env stays as it is.

#include <map>
#include <string>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// Of all ranks, from MASTER_ADDR and MASTER_PORT in the request: HOROVOD_CONTROLLER and HOROVOD_CPU_OPERATIONS, "mpi"
// with that back end, else "gloo" with the address at which a rendezvous is looked for (rank 0's script makes it:
// examples/horovod), and the loopback interface where that is one.
void add_horovod(LaunchRequest& request);

struct HorovodPlace {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on its host
  int cross_rank = 0, cross_size = 1;  // its host among those that have such a local rank
};
// Of one rank: HOROVOD_RANK, HOROVOD_SIZE, ... Under mpirun none are needed: Horovod asks MPI.
void add_horovod(std::map<std::string, std::string>& environment, const HorovodPlace& place);

}  // namespace mlbench::exec
