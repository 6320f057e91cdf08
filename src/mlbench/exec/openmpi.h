#pragma once

// The words of Open MPI's mpirun (4.0, 4.1) that are the same however its daemons come to the hosts.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

struct MpirunOptions {
  std::vector<std::string> hosts;  // one for each rank, in order
  std::filesystem::path working_directory = {};
  std::string agent = {};            // the program that starts daemons on the hosts; "": this host is the only one
  std::string agent_arguments = {};  // the arguments of `agent`, which Open MPI splits at blanks
  std::string interface = {};        // the network of daemons and ranks, as Open MPI selects it; "": its choice
  bool shares_cores = false;         // whether ranks that wait yield their core
};

// Whether `text` is an address of IPv4 or IPv6, and not the name of an interface.
bool is_numeric_address(const std::string& text);

// The words from "mpirun" to the end of its options. They start a rank for each element of `hosts`, bound to no core.
// mpirun does not end the others when a rank fails: the supervisor judges that.
std::vector<std::string> mpirun_words(const MpirunOptions& options);

// The mpirun for start_linked() where nothing but the guards' links reaches the hosts (guard/openmpi.h). The guard of
// rank 0 runs it. mlbench-guard is its agent, and the program that it starts for each rank.
std::vector<std::string> mpirun_over_links(const LaunchRequest& request);

// The name by which mpirun_over_links() calls the host of a rank. It is unique, so that no host takes another's daemon
// for its own: several ranks may have one address.
std::string openmpi_host(int rank);

}  // namespace mlbench::exec
