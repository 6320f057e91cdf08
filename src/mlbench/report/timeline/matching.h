#pragma once

// Which operations of the ranks belong together, and who waited for whom in them.
//
// With A the moment at which the last rank entered an operation that all leave together, a rank waits from its own
// entry to A, and from A to its exit bytes are moved: the transfer. In a broadcast or scatter a rank waits for the
// root, the root for nobody; in a reduce or gather the root waits for the last rank, the others for nobody; who
// receives a message waits for the sender. What a rank waits in its first operation because another started its steps
// later is the start's, not communication's.
//
// An operation's wait is that of the rank that waited longest, its transfer the longest of a rank. The wait is known to
// within its uncertainty, the greater of what the two clocks' bounds add up to and (where all leave together) the time
// from the first exit to the last: leaving at different moments, the ranks cannot all have waited for the same one.
//
//   transfer      wait and uncertainty together are at most a tenth of the transfer; or the wait is at most a third
//   inconclusive  not that, and the uncertainty is more than a tenth of the wait; or a rank left before the last came
//   skew          the wait is at least two thirds of wait and transfer
//   mixed         all else

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// Who waits for whom.
enum class WaitRule : uint8_t {
  kAll,      // all for the last
  kForRoot,  // all for the root
  kRoot,     // the root for the last
  kMessage,  // who receives for who sends
  kNobody    // of one rank alone
};
WaitRule wait_rule(std::string_view operation);

TimelineVerdict verdict_of(double wait_s, double transfer_s, double uncertainty_s);

// Operations that belong together: an index per rank of RankPart::operations; -1 for a rank that has no part in it.
struct OperationGroup {
  std::vector<int64_t> of_rank;
  WaitRule rule = WaitRule::kAll;
  TimelineVerdict verdict = TimelineVerdict::kInconclusive;
  int64_t late_rank = -1;  // whom the rank waited for that waited longest; -1: nobody waited
  int64_t wait_ns = 0, transfer_ns = 0, uncertainty_ns = 0;
};

struct MatchedSegment {
  std::vector<OperationGroup> groups;  // collectives in their order, then messages
  int64_t unmatched = 0;               // operations of all ranks
  std::vector<std::string> notes;
};

// Finds the groups of a segment and fills in what TimelineOperation says of them. Operations from before the steps are
// matched, too.
MatchedSegment match_operations(TimelineRun& run, size_t segment);

}  // namespace mlbench::report
