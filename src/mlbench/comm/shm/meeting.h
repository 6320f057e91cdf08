#pragma once

// How the ranks of a group come together in one segment.
//
// Rank 0 makes the segment and puts a random number into it. The invitation that it gives the others contains the
// segment's name, that number, and a proof that rank 0 knows the run's secret. A rank that can open the segment and
// finds the number in it is on the same host, and writes its own proof into its station (net/proof.h). When all have
// come, rank 0 checks their proofs and removes the segment's name: from then on nothing is left behind, however the
// ranks end. A segment whose rank 0 died before that is removed by the next group that the same user makes.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend {

struct Membership {
  int rank = 0;
  int size = 2;
  std::string run;     // "17/segment2/", used in the segment's name
  std::string group;   // "shm/", or "shm/splitN/COLOUR/" for a split: a proof is bound to this and the run
  std::string secret;  // the run's secret; "": the invitation is proof enough
  std::chrono::milliseconds timeout{30000};
  bool passive = false;  // ranks do not spin while they wait; rank 0's value counts for all
};

// No invitation is longer than this.
inline constexpr size_t kInvitationBytes = 1024;

// Called by rank 0. Calls `tell` once with the invitation, even when the segment cannot be made. Throws CommError
// naming the rank that is missing or has proved nothing.
std::unique_ptr<Group> host(const Membership& own, const std::function<void(const std::string&)>& tell);

// Called by every other rank. Throws CommError naming the missing rank, or saying that the ranks are not on one host.
std::unique_ptr<Group> join(const Membership& own, const std::string& invitation);

}  // namespace mlbench::comm::shm_backend
