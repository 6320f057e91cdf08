#pragma once

// What an executor sees of the ranks, and of what runs them. An executor reports and does not judge: supervise/table.h
// says when a run has failed, and supervise/culprit.h who broke it.

#include <optional>
#include <string>
#include <variant>

#include "mlbench/base/process.h"

namespace mlbench::exec {

// RankExit::why where the kernel killed a process of the rank's control group while the rank ran.
inline constexpr const char* kOutOfMemory =
    "out of memory: the kernel killed a process of its control group (container, batch job) at a memory limit";

// A rank has ended. Reported once for each rank.
struct RankExit {
  int rank = 0;
  ProcessEnd end = {};  // as constructed where the rank is `lost`
  bool lost = false;    // whether nobody saw how the rank ended, as its link was given up
  // What the rank's host says of the end, where it says something: "out of memory: ...". Where the rank is `lost`: what
  // its guard said against the protocol, after which nothing more was taken from the guard; else "".
  std::string why = {};
};

// From now on nothing is heard of a rank's host, which may be well; or, where `over`, something is heard again.
struct RankSilence {
  int rank = 0;
  bool over = false;
};

// What an engine, or the operating system, did to what runs the ranks, or noticed of it.
enum class EngineFact {
  kLauncherKilled,  // a signal killed the program that started all ranks, and with it the ranks
  kJobTaken,        // the engine, or somebody, ended, deleted or requeued what runs the ranks
  kRankTaken,       // the engine evicted or preempted the rank, or ended it at its memory limit
  kHostGone,        // the host of the rank, or of some rank, is lost
  kRankEnded,       // the rank ended by itself; its guard may report that, too
  kRankDeleted,     // somebody deleted the rank, or the engine did because another one ended
  kJobOver,         // what runs the ranks ended by itself
  kBesideKilled,    // a signal killed a program of Open MPI's that guards run beside ranks
  kBesideEnded,     // such a program ended by itself: a rank may have told it to (MPI_Abort)
};

// What the engine, or the operating system, says of what runs the ranks.
struct EngineWord {
  EngineFact fact = EngineFact::kJobTaken;
  std::string words;             // the engine's words, for people
  int rank = -1;                 // the rank that the fact is about; -1: all, or some
  std::optional<int> code = {};  // the rank's exit code, where the engine says it
  bool place_lost = false;       // whether the ranks could run elsewhere, or later: host lost, requeue, eviction
};

using Observation = std::variant<RankExit, RankSilence, EngineWord>;

}  // namespace mlbench::exec
