#pragma once

// The words of Open MPI's mpirun (4.0, 4.1), as far as they are the same however its daemons come to the hosts.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

struct MpirunOptions {
  std::vector<std::string> hosts;  // of the ranks, in order
  std::filesystem::path working_directory = {};
  std::string agent = {};            // the program that brings its daemons to the hosts; "": all of them are this host
  std::string agent_arguments = {};  // which Open MPI takes apart at blanks
  std::string interface = {};        // by which daemons and ranks talk, as Open MPI selects networks; "": its choice
  bool shares_cores = false;         // ranks wait without keeping a core busy
};

// Of IPv4 or IPv6, and no name of an interface.
bool is_numeric_address(const std::string& text);

// From "mpirun" up to where its options end: a rank per host of the list, nothing bound. What fails or is lost, the
// supervisor judges.
std::vector<std::string> mpirun_words(const MpirunOptions& options);

// An mpirun for guards that nobody reaches but over their links (guard/openmpi.h), of start_linked(): the guard of rank
// 0 runs it, and guards are its agent and its ranks.
std::vector<std::string> mpirun_over_links(const LaunchRequest& request);

// As it calls the host of a rank. A name that nothing else has, so that no host takes another's daemon for its own:
// several ranks may have one address.
std::string openmpi_host(int rank);

}  // namespace mlbench::exec
