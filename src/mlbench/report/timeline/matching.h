#pragma once

// Finds which operations of the ranks belong together, and which rank waited for which in them.
//
// Let A be the moment at which the last rank entered an operation that all ranks leave together. A rank waits from its
// own entry to A; from A to its exit, bytes are moved: the transfer. In a broadcast or scatter, a rank waits for the
// root, and the root for nobody. In a reduce or gather, the root waits for the last rank, and the others for nobody.
// The receiver of a message waits for the sender. A rank's wait in its first operation for another that started its
// steps later counts as start, not as communication.
//
// An operation's wait is the longest wait of a rank; its transfer is the longest transfer of a rank. The wait is known
// to within its uncertainty: the sum of the two clocks' bounds or, if that is longer and all ranks leave together, the
// time from the first exit to the last. Ranks that leave at different moments cannot all have waited for the same rank.
// The verdict on an operation is the first of these that holds, except that it is inconclusive where a rank left before
// the rank for which it waits had come:
//
//   transfer      wait + uncertainty is at most a tenth of the transfer
//   inconclusive  the uncertainty is more than a tenth of the wait
//   skew          the wait is at least two thirds of wait + transfer
//   transfer      the wait is at most a third of wait + transfer
//   mixed         all else

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// Which rank of an operation waits for which.
enum class WaitRule : uint8_t {
  kAll,      // all ranks for the last one
  kForRoot,  // all ranks for the root
  kRoot,     // the root for the last rank
  kMessage,  // the receiver for the sender
  kNobody    // the operation involves one rank only
};
WaitRule wait_rule(std::string_view operation);

// The verdict by the table above.
TimelineVerdict verdict_of(double wait_s, double transfer_s, double uncertainty_s);

// Operations that belong together.
struct OperationGroup {
  std::vector<int64_t> of_rank;  // by rank, an index in RankPart::operations; -1: the rank takes no part
  WaitRule rule = WaitRule::kAll;
  TimelineVerdict verdict = TimelineVerdict::kInconclusive;
  int64_t late_rank = -1;  // the rank for which the longest wait was; -1: nobody waited
  int64_t wait_ns = 0, transfer_ns = 0, uncertainty_ns = 0;
};

struct MatchedSegment {
  std::vector<OperationGroup> groups;  // collectives in their order, then messages
  int64_t unmatched = 0;               // operations, of all ranks, that are in no group
  std::vector<std::string> notes;
};

// Finds the groups of the segment with index `segment` and fills in what TimelineOperation holds about matching.
// Operations before the steps are matched, too.
MatchedSegment match_operations(TimelineRun& run, size_t segment);

}  // namespace mlbench::report
