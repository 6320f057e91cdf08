#pragma once

// MPI (Open MPI where it was tested). Ranks are processes that an MPI launcher started: mpirun, or srun with PMIx.
//
// - Blocking operations are MPI's blocking calls. They neither time out nor notice a lost peer: the rank's watchdog
//   ends a rank that waits too long. all_reduce_async is MPI_Iallreduce, which goes on while some MPI call is made.
// - An error of MPI is fatal to the rank: it is thrown as a CommError with MPI's text, and from then on the process
//   makes no MPI call, not even MPI_Finalize, which would wait for the peers. The same holds when an exception destroys
//   a transport. The launcher then ends the other ranks when this process exits.
// - MPI is initialised by the first transport of the process and finalised with the last one; there is no second
//   time. The thread level is MPI_THREAD_SERIALIZED or more: a transport and its splits are used by one thread at a
//   time. description() names the level that MPI gave, and how it is tuned: "mpi[serialized]",
//   "mpi[serialized,ring,tcp,socket_buffer=65536]".
// - Sums are MPI's, but for float16 and bfloat16, which MPI does not know: those are operators of ours, with the
//   arithmetic of comm/reduce.h.

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::mpi_backend {

// All-reduces that make() takes in CommOptions::algorithm.
inline constexpr std::string_view kAlgorithms[] = {"auto", "ring", "halving_doubling"};

Availability available();

// UserError when MPI and the options disagree on rank or size: the ranks were not started by an MPI launcher. The
// timeout and the store are not used: MPI has its own of these. How it is tuned (parameters.h) counts for the first
// transport of the process: the others have the same.
std::unique_ptr<Transport> make(const CommOptions& options);

// Elements that one MPI call takes; MPI counts in int.
inline constexpr int64_t kMostElements = std::numeric_limits<int>::max();

// make() with another bound (the same on all ranks): tests see what happens beyond it.
std::unique_ptr<Transport> make_in_parts(const CommOptions& options, int64_t most_elements);

}  // namespace mlbench::comm::mpi_backend
