#pragma once

// The sums behind summary.h: where the ranks' time went, who was waited for and why, and what the run would
// have taken on a network that moves bytes in no time.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mlbench/report/timeline/matching.h"
#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// Of one rank; all in nanoseconds. elapsed = sum of own + wait + transfer + unmatched; a wait for ranks that started
// later is in `start` alone.
struct RankAccount {
  std::array<int64_t, kActivities> own{};  // without communication
  int64_t elapsed = 0, start = 0;
  int64_t wait = 0, transfer = 0, unmatched = 0;  // exposed
  int64_t hidden = 0;
  std::map<int64_t, int64_t> waits_for;  // by rank
  // What others waited for this rank, summed over them, and what it did meanwhile that they did not do. The sum of
  // causes is less by what they waited in messages, and where no such thing is seen.
  int64_t blame = 0, blamed_on_communication = 0;
  std::array<int64_t, kActivities> causes{};

  int64_t useful() const;
  int64_t group(std::string_view name) const;  // of activity_group()
};

struct OperationAccount {
  int64_t count = 0, wait = 0, transfer = 0, inconclusive = 0;  // inconclusive: how many of the count
  int64_t worst_wait = 0, worst_step = -1, worst_rank = -1;
};

struct TimelineAccounts {
  std::vector<RankAccount> ranks;
  std::map<std::pair<std::string, uint64_t>, OperationAccount> operations;  // by name and bytes
  // Exposed: of each operation the longest of a rank.
  int64_t wait = 0, transfer = 0, inconclusive = 0;
  int64_t runtime = 0, ideal = 0;  // of the slowest rank; the same on an ideal network
  bool ideal_known = true;         // not much was in messages or is unmatched
  int64_t matched = 0, unmatched = 0;
  std::vector<std::string> notes;
};

TimelineAccounts account_for(TimelineRun& run);

}  // namespace mlbench::report
