#pragma once

// The variables by which Horovod finds its ranks where no horovodrun started them: of a custom run, whose script may
// call hvd.init(). What the user gave the run by --env stays as it is.

#include <map>
#include <span>
#include <string>
#include <vector>

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
struct LocalPlace {
  int rank = 0, size = 1;  // on its host
};
// Of all ranks, by their numbers.
std::vector<HorovodPlace> horovod_places(std::span<const LocalPlace> places);
// Of one rank: HOROVOD_RANK, HOROVOD_SIZE, ... With the back end mpi none are needed: Horovod asks MPI.
void add_horovod(std::map<std::string, std::string>& environment, const HorovodPlace& place);

}  // namespace mlbench::exec
