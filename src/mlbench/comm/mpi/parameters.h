#pragma once

// What Open MPI is told about itself: parameters (MCA) in the environment of the process, before it is initialised.

#include <map>
#include <string>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm::mpi_backend {

// Names as `ompi_info --all` has them. Empty where nothing was asked for: Open MPI then chooses.
// - passive_wait: whoever waits yields.
// - algorithm: its number among those of coll/tuned. "ring" is 4, "halving_doubling" 6, Rabenseifner's; for fewer
//   elements than ranks both give way to others.
// - socket_buffer_bytes, bind_address: over TCP, also between ranks of one host, which share memory otherwise; with the
//   loopback interface where none was named.
// - links: nothing, on purpose. With btl_tcp_links Open MPI 4.1 opens two connections at most, or hangs
//   (docs/communicators/mpi.md).
// UserError when no interface of this host has the address.
std::map<std::string, std::string> parameters_of(const CommOptions& options);

// For description(): "", or ",ring,tcp,socket_buffer=65536": what was asked for.
std::string tuning_of(const CommOptions& options);

}  // namespace mlbench::comm::mpi_backend
