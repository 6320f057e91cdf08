#pragma once

// What an executor sees of the ranks, and of what runs them. It is told and not weighed: who broke a run, and how long
// the cause has to show, supervise/table.h says.

#include <optional>
#include <string>
#include <variant>

#include "mlbench/base/process.h"

namespace mlbench::exec {

// RankExit::why of a rank in whose control group the kernel killed a process meanwhile.
inline constexpr const char* kOutOfMemory =
    "out of memory: the kernel killed a process of its control group (container, batch job) at a memory limit";

// A rank has ended, once for each.
struct RankExit {
  int rank = 0;
  ProcessEnd end = {};  // of one that is lost: nothing
  bool lost = false;    // nobody saw how it ended: its link was given up
  // What its host says of that, where it says something: "out of memory: ...". Of one that is lost: what its guard
  // said against the protocol, for which nothing more was taken from it; else "".
  std::string why = {};
};

// From now on nothing is heard of a rank's host, which may be well; or something is heard again.
struct RankSilence {
  int rank = 0;
  bool over = false;
};

enum class EngineFact {
  kLauncherKilled,  // a signal killed the program that started all ranks, and with it the ranks
  kJobTaken,        // the engine, or somebody, ended, deleted or requeued what runs the ranks
  kRankTaken,       // it evicted or preempted the rank, or ended it at its limit of memory
  kHostGone,        // the rank's host, or that of some rank
  kRankEnded,       // the rank ended by itself, as its guard may tell, too
  kRankDeleted,     // somebody deleted the rank, or the engine did because another one ended
  kJobOver,         // what runs the ranks ended by itself
  kBesideKilled,    // a signal killed a program of Open MPI's that guards run beside ranks
  kBesideEnded,     // such a program ended by itself: a rank may have told it to (MPI_Abort)
};

// What the engine, or the operating system, says of what runs the ranks.
struct EngineWord {
  EngineFact fact = EngineFact::kJobTaken;
  std::string words;             // for people
  int rank = -1;                 // whose place it is about; -1: that of all, or of some
  std::optional<int> code = {};  // with which that rank ended, where the engine says it
  bool place_lost = false;       // the ranks could run elsewhere, or later: a host, a requeue, an eviction
};

using Observation = std::variant<RankExit, RankSilence, EngineWord>;

}  // namespace mlbench::exec
