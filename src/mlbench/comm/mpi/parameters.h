#pragma once

// Open MPI's parameters (MCA), which are put into the environment of the process before MPI is initialised.

#include <map>
#include <string>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm::mpi_backend {

// The parameters' names are those of `ompi_info --all`. Empty where no tuning was asked for: Open MPI then chooses.
// - passive_wait: a waiting rank yields its core.
// - algorithm: its number among those of coll/tuned. "ring" is 4; "halving_doubling" is 6, Rabenseifner's. For fewer
//   elements than ranks, both give way to others.
// - socket_buffer_bytes, bind_address: ranks communicate over TCP, also on one host, where they share memory otherwise;
//   over the loopback interface where none was named.
// - links: ignored on purpose. With btl_tcp_links Open MPI 4.1 opens two connections at most, or hangs
//   (docs/communicators/mpi.md).
// Throws UserError when no interface of this host has the address.
std::map<std::string, std::string> parameters_of(const CommOptions& options);

// The tuning that was asked for, as a part of description(): "", or ",ring,tcp,socket_buffer=65536".
std::string tuning_of(const CommOptions& options);

}  // namespace mlbench::comm::mpi_backend
