#pragma once

// How the ranks of a group come together in one segment.
//
// Rank 0 makes the segment and puts a random number into it. What it tells the others, the invitation, holds the
// segment's name, that number, and a proof that rank 0 knows the run's secret. Whoever can open the segment and finds
// the number in it is on the same host, and writes its own proof into its station (net/proof.h). When all have come,
// rank 0 checks their proofs and takes the segment's name away: from then on nothing is left behind, however the ranks
// end. A segment whose rank 0 died before that is removed by the next group that anybody of the same user makes.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend {

struct Membership {
  int rank = 0;
  int size = 2;
  std::string run;     // "17/segment2/": for the segment's name
  std::string group;   // "shm/", of a part "shm/splitN/COLOUR/": with the run, what a proof is bound to
  std::string secret;  // of the run; "": the invitation is proof enough
  std::chrono::milliseconds timeout{30000};
  bool passive = false;  // rank 0's counts
};

// No invitation is longer.
inline constexpr size_t kInvitationBytes = 1024;

// Rank 0, which calls `tell` once with the invitation, even when it cannot make the segment. CommError naming the rank
// that is missing or has proved nothing.
std::unique_ptr<Group> host(const Membership& own, const std::function<void(const std::string&)>& tell);

// Every other rank. CommError as well, and one that says so if the ranks are not on one host.
std::unique_ptr<Group> join(const Membership& own, const std::string& invitation);

}  // namespace mlbench::comm::shm_backend
