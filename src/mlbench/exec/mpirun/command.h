#pragma once

// The one mpirun of a run: its words, and the hosts of its ranks.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/mpirun/options.h"

namespace mlbench::exec::mpirun {

// The name that `engine` gives the host of each rank, in order. Throws UserError where there are no hosts or too few
// slots, and for an address of IPv6, which mpirun reads as a port. Throws it also for "localhost" beside other hosts,
// which cannot come back to this host by that name.
std::vector<std::string> hosts_of_ranks(const Options& engine, int ranks);
bool all_here(const std::vector<std::string>& hosts);

std::vector<Placement> placement_on(const std::vector<std::string>& hosts);

// The network as Open MPI selects it. A name, or a network in CIDR notation, stays as it is. An address of this host
// becomes its network's (10.77.0.1 -> 10.77.0.0/24), as each host has an address of its own there. Throws UserError for
// an address that is not this host's, and for text that is none of these.
std::string network_of(const std::string& interface);

// This host's own address (IPv4) on `interface`, which is a name, an address of this host, or a network. Empty where
// there is none.
std::optional<std::string> own_address_on(const std::string& interface);

// The options of ssh: ssh asks nobody for anything, and ends where a host does not answer. `ssh_config` is the path of
// its configuration; "": the user's own.
std::vector<std::string> ssh_options(const std::string& ssh_config);

// Returns ssh_options() as one text for Open MPI, which splits it at blanks. Throws UserError where that would break
// the path `ssh_config`.
std::string ssh_arguments(const std::string& ssh_config);

// mpirun with the guards and the command of `moved`, the request as moved_to() the hosts. mpirun gets the ranks'
// variables by name: the values are only in its own environment, and reach other hosts over its own connections.
ProcessOptions command(const Options& engine, const LaunchRequest& moved, const std::vector<std::string>& hosts);

}  // namespace mlbench::exec::mpirun
