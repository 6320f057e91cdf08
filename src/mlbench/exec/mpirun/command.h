#pragma once

// The one mpirun of a run: its words, and where it puts ranks and their folder.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/mpirun/options.h"

namespace mlbench::exec::mpirun {

// The name that an engine's options give the host of each rank, in order. UserError: no hosts, too few slots, a number
// of IPv6 (which mpirun reads as a port), or "localhost" beside other hosts, which cannot come back to it.
std::vector<std::string> hosts_of_ranks(const Options& engine, int ranks);
bool all_here(const std::vector<std::string>& hosts);

std::vector<Placement> placement_on(const std::vector<std::string>& hosts);

// As Open MPI selects networks: a name, or a network in CIDR notation, stays; an address of this host becomes its
// network's (10.77.0.1 -> 10.77.0.0/24), as each host has an address of its own there. UserError for one that is not
// this host's.
std::string network_of(const std::string& interface);

// This host's own address on such a network (IPv4), as a number. Empty where it has none.
std::optional<std::string> own_address_on(const std::string& interface);

// ssh's options: nobody is asked for anything, and what does not answer ends.
std::vector<std::string> ssh_options(const std::string& ssh_config);

// The same for Open MPI, which takes them apart at blanks. UserError where that would break ssh_config's path.
std::string ssh_arguments(const std::string& ssh_config);

// mpirun with the guards and the request's command, which is `moved` to the hosts. It hands the variables on by their
// names: their values are in its own environment alone, and reach other hosts over its own connections.
ProcessOptions command(const Options& engine, const LaunchRequest& moved, const std::vector<std::string>& hosts);

}  // namespace mlbench::exec::mpirun
