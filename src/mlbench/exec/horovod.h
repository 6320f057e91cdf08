#pragma once

// The variables by which Horovod finds its ranks where no horovodrun started them: in custom runs, whose scripts may
// call hvd.init(). Variables that the user gave the run by --env stay as they are.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// Adds the variables that are the same for all ranks. HOROVOD_CONTROLLER and HOROVOD_CPU_OPERATIONS become "mpi" with
// that back end, else "gloo". With gloo, the request's MASTER_ADDR and MASTER_PORT become the address of the
// rendezvous, which rank 0's script makes (examples/horovod); the loopback interface is named where that address is on
// it.
void add_horovod(LaunchRequest& request);

struct HorovodPlace {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of its host
  int cross_rank = 0, cross_size = 1;  // among the ranks with this local rank on their hosts
};
struct LocalPlace {
  int rank = 0, size = 1;  // among the ranks of its host
};
// The places of all ranks, by number; `places` are those on their hosts.
std::vector<HorovodPlace> horovod_places(std::span<const LocalPlace> places);
// Adds the variables of one rank: HOROVOD_RANK, HOROVOD_SIZE, ... With the back end mpi none are needed: Horovod asks
// MPI.
void add_horovod(std::map<std::string, std::string>& environment, const HorovodPlace& place);

}  // namespace mlbench::exec
