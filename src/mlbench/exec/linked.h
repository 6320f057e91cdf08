#pragma once

// Ranks on other hosts, each under a guard that comes over a link. Each executor has an engine of its own that starts
// the guards; what is the same for all engines is here.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// The run's folder on this host. A plan has no links yet: its folder is the parent of `log_dir`. "" where there is
// none.
std::filesystem::path folder_here(const LaunchRequest& request);

// The files of the run's folder that guards on other hosts are given: the specification, where the folder has one (that
// of a user's command has none).
std::vector<std::string> files_for_guards(const LaunchRequest& request);

// The run's folder on each of its hosts: `scratch`/mlbench-UID/RUN_NAME-IDENTITY, below /tmp where `scratch` is empty.
// It is the same for each segment of a run, and no two runs share it: no run reads what another one left on a host. A
// plan has no identity: its folder ends in a hash of this host's name, the run's folder here, and the run's number.
std::filesystem::path folder_on_hosts(const LaunchRequest& request, const std::filesystem::path& scratch);

// The names of the variables that the supervisor and the links add to the environment of ranks on other hosts, beside
// those that a plan knows.
std::vector<std::string> variables_of_links(const LaunchRequest& request);

// The variables that a guard needs beside the request's and its launcher's. `folder` is the run's folder on the rank's
// host, which is that host's own and which the guard makes. Where the request has `rank_words`, the guard fills in
// "{rank}".
std::map<std::string, std::string> guard_environment(const LaunchRequest& request, const std::filesystem::path& folder);

// The request as it holds on a host where the run's folder is `folder`. Words of the command and values of variables
// that name the folder here name that one instead. Precondition: `request.links.folder` is not empty.
LaunchRequest moved_to(LaunchRequest request, const std::filesystem::path& folder);

// Starts ranks whose guards come over links. The start is kStarting until all guards came and their ranks run; it fails
// with the words of a guard whose rank could not start. The executor says how long that may take, and what its engine
// says meanwhile. The group has no process on this host: at its end it tells the guards, which end the ranks. Guards
// and workers of another build than here are refused, except those of an image. Precondition: `request.links.server` is
// not null.
// - `placement` says where the ranks are; where it is empty, the guards say that.
// - `files` are files of the run's folder that guards are given first, with those of Links::given. Ranks that share a
//   folder get each file once.
// - `mpirun` is that of openmpi.h, where ranks use MPI and only guards can start it. It begins when all guards came. A
//   rank starts once mpirun asks for it, and the group reports how mpirun and its daemons end.
// - `peers` are the names of the ranks' hosts, as these reach each other. Where it is empty, the names are those of
//   `placement`, or else the addresses that the guards say.
// For a command of the user's (`rank_words`), the guards fill in "{hosts}" in its words. They also set MASTER_ADDR,
// MASTER_PORT (free on the host of rank 0) and what Horovod needs.
std::unique_ptr<Start> start_linked(const LaunchRequest& request, std::vector<Placement> placement,
                                    std::vector<std::string> files, std::vector<std::string> mpirun = {},
                                    std::vector<std::string> peers = {});

}  // namespace mlbench::exec
