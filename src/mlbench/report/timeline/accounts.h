#pragma once

// Computes the sums behind summary.h: where the ranks' time went, which rank was waited for and why, and how long the
// run would have taken on a network that moves bytes in no time.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mlbench/report/timeline/matching.h"
#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// The account of one rank in nanoseconds. elapsed = sum of own + wait + transfer + unmatched. A wait for ranks that
// started later is only in `start`.
struct RankAccount {
  std::array<int64_t, kActivities> own{};  // by activity, without exposed communication
  int64_t elapsed = 0, start = 0;
  int64_t wait = 0, transfer = 0, unmatched = 0;  // exposed communication
  int64_t hidden = 0;                             // communication that ran beside the thread's other work
  std::map<int64_t, int64_t> waits_for;           // exposed waits by the rank that was waited for
  // `blame` is how long other ranks waited for this one, summed over them. `causes` and `blamed_on_communication`
  // divide it by what this rank did for longer than they did. Their sum is less than `blame`: waits in messages, and
  // waits without such a difference, have no cause.
  int64_t blame = 0, blamed_on_communication = 0;
  std::array<int64_t, kActivities> causes{};

  int64_t useful() const;
  int64_t group(std::string_view name) const;  // sum of `own` over the activities of an activity_group()
};

// The account of all operations of one name and size; times in nanoseconds.
struct OperationAccount {
  int64_t count = 0, wait = 0, transfer = 0, inconclusive = 0;  // inconclusive: the number of such operations
  int64_t worst_wait = 0, worst_step = -1, worst_rank = -1;
};

struct TimelineAccounts {
  std::vector<RankAccount> ranks;
  std::map<std::pair<std::string, uint64_t>, OperationAccount> operations;  // by name and bytes
  // Nanoseconds, summed over operations: the longest exposed wait of a rank, and the longest exposed transfer of a
  // rank. Both times of an inconclusive operation are only in `inconclusive`.
  int64_t wait = 0, transfer = 0, inconclusive = 0;
  int64_t runtime = 0, ideal = 0;      // nanoseconds of the slowest rank: as it was, and on an ideal network
  bool ideal_known = true;             // at most a tenth of communication was unmatched or in messages
  int64_t matched = 0, unmatched = 0;  // groups of operations; operations of ranks that are in no group
  std::vector<std::string> notes;
};

// Matches the operations of `run` (matching.h), fills in their exposed parts, and sums up.
TimelineAccounts account_for(TimelineRun& run);

}  // namespace mlbench::report
