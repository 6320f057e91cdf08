#pragma once

// MPI (tested with Open MPI). Ranks are processes that an MPI launcher started: mpirun, or srun with PMIx.
//
// - Blocking operations are MPI's blocking calls, which neither time out nor notice a lost peer: the rank's watchdog
//   ends a rank that waits too long. all_reduce_async is MPI_Iallreduce, which progresses while some MPI call is made.
// - An error of MPI is fatal to the rank. The error is thrown as a CommError with MPI's text, and from then on the
//   process makes no MPI call, not even MPI_Finalize, which would wait for the peers. The same holds when an exception
//   destroys a transport. The launcher then ends the other ranks when this process exits.
// - The first transport of the process initialises MPI, and the last one finalises it; there is no second time. The
//   thread level is MPI_THREAD_SERIALIZED or more: one thread at a time uses a transport and its splits. description()
//   names the level that MPI gave, and how MPI is tuned: "mpi[serialized]",
//   "mpi[serialized,ring,tcp,socket_buffer=65536]".
// - Sums are MPI's, except for float16 and bfloat16, which MPI does not know: operators of our own add these, with the
//   arithmetic of comm/reduce.h.

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::mpi_backend {

// The values of CommOptions::algorithm that make() takes.
inline constexpr std::string_view kAlgorithms[] = {"auto", "ring", "halving_doubling"};

Availability available();

// Throws UserError when MPI and the options disagree on rank or size: the ranks were not started by an MPI launcher.
// The options' timeout and store are not used: MPI has its own. The tuning (parameters.h) of the process's first
// transport counts for all later ones.
std::unique_ptr<Transport> make(const CommOptions& options);

// The most elements that one MPI call takes: MPI counts in int.
inline constexpr int64_t kMostElements = std::numeric_limits<int>::max();

// make() with another bound (the same on all ranks), so that tests see what happens beyond it.
std::unique_ptr<Transport> make_in_parts(const CommOptions& options, int64_t most_elements);

}  // namespace mlbench::comm::mpi_backend
