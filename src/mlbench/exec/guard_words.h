#pragma once

// What guards of other hosts say (guard/channel.h), as values whose types and bounds base/peer_words.h has. Each
// function throws PeerFault for anything else.

#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/exec/placement.h"

namespace mlbench::exec {

// Of its host. What it does not say is empty.
struct HostWords {
  std::string address;  // by which it reaches the supervisor
  int port = 0;         // free there; 0: it does not know
  std::string node;     // as its launcher calls the host
  std::string folder;   // the run's there, as its guards tell it from others
  std::string build_id;
  LocalPlace local;
  CoreShare cores;                    // less the host's name
  std::optional<int> gpu;             // number of the one that it gives its rank
  Json host = Json::object();         // of HostCapture
  Json environment = Json::object();  // likewise
  std::string guard_build_id;
};
HostWords host_words(const std::string& text);

// "CODE SIGNAL[ oom]"
RankExit end_words(int rank, std::string_view text);

// A daemon of Open MPI's that mpirun wants, and how a program of Open MPI's ended.
struct DaemonWords {
  std::string host, command;  // as openmpi_host() has it; for a shell there
};
DaemonWords daemon_words(std::string_view text);
struct LaunchedEndWords {
  bool killed = false;
  std::string how;
};
LaunchedEndWords launched_end_words(std::string_view text);

}  // namespace mlbench::exec
