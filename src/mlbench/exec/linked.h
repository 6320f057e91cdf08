#pragma once

// Ranks of other hosts, each under a guard that comes over a link. The engine that starts the guards is the executor's
// own; what is the same for all engines is here.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// Of the run, here; a plan has no links yet. "" where it has none.
std::filesystem::path folder_here(const LaunchRequest& request);

// What guards on other hosts are given of that folder: the specification, which a command of one's own has not.
std::vector<std::string> files_for_guards(const LaunchRequest& request);

// SCRATCH/mlbench-UID/RUN_NAME-IDENTITY: of the run, on each of its hosts. The same for each segment of a run, and of
// no two runs: what another one left on a host is in no folder that this one reads. Without `scratch` it is below /tmp.
// A plan, which has no identity, ends in a hash of its home and number.
std::filesystem::path folder_on_hosts(const LaunchRequest& request, const std::filesystem::path& scratch);

// What the supervisor and the links add to the environment of ranks on other hosts, beside what a plan knows: names.
std::vector<std::string> variables_of_links(const LaunchRequest& request);

// What a guard needs in its environment beside the request's and its launcher's variables. `folder`: of the run on the
// rank's host, which is its own: the guard makes it. With it a guard fills in the request's rank words.
std::map<std::string, std::string> guard_environment(const LaunchRequest& request, const std::filesystem::path& folder);

// The request as it holds on a host where the run's folder is `folder`: in the words of the command and the values of
// the environment that name it.
LaunchRequest moved_to(LaunchRequest request, const std::filesystem::path& folder);

// kStarting until all guards came and their ranks run; it fails with the words of a guard whose rank could not start.
// Where the placement is empty, it is what the guards say of their hosts. Guards are given `files` of the run's folder
// (spec.json) and those of Links::given first, each file once for all ranks that share a folder there. How long that
// may take, and what the engine says meanwhile, is for the executor. The group has no process of this host: its end
// tells the guards, which end the ranks.
// Guards and workers of another build than here are refused; those of an image are its own.
// A command of the user's (rank_words) has "{hosts}" in its words filled in by the guards, and MASTER_ADDR, MASTER_PORT
// and what Horovod needs: `peers` names the ranks' hosts, as they reach each other; where it is empty, the placement
// does, or else the addresses that the guards say. The port is free on the host of rank 0.
// `mpirun`: of openmpi.h, where ranks use MPI and nobody but the guards can start it. It begins when all guards came; a
// rank runs once it wants that, and how its programs end is among what is seen of the group.
std::unique_ptr<Start> start_linked(const LaunchRequest& request, std::vector<Placement> placement,
                                    std::vector<std::string> files, std::vector<std::string> mpirun = {},
                                    std::vector<std::string> peers = {});

}  // namespace mlbench::exec
