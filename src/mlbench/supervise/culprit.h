#pragma once

// Which rank broke a run, and how to say it. Pure: from what the supervisor saw of each rank. When that is asked, is in
// table.h.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/observation.h"
#include "mlbench/record/build_record.h"

namespace mlbench::supervise {

// What is known of a rank at one moment. Times are those at which something was seen.
struct RankFacts {
  std::string host;
  std::optional<exec::RankExit> exit;  // by its own doing, not ours
  int64_t exit_order = 0;              // 0 was seen first; of one that is lost: when its host became silent
  TimePoint exit_seen;
  std::optional<TimePoint> silent_since = {};  // nothing is heard of its host
  int64_t silence_order = 0;                   // of that, among all that was seen
  std::optional<TimePoint> back_at = {};       // something was heard of it again
  bool joined = false;
  std::optional<TimePoint> closed_since = {};  // its connection to the rendezvous is closed
  std::string fault = {};                      // of net::RankStatus
  TimePoint fault_seen;
  std::optional<TimePoint> heard_at = {};  // its last heartbeat, or since when there could be one
  std::optional<double> heartbeat_age_s;   // since then
  Json heartbeat = Json::object();         // {"operation", "sequence", "in_progress", "since_s", "step"}
  std::optional<Json> report;              // {"event": "failure", "kind", "operation", ...}
  TimePoint report_seen;
  std::string log_reason = {};  // the last line of its log that holds a reason (holds_reason()), if any
  char process_state = '?';     // as in /proc/PID/stat; '?': not on this host, or gone
};

// With an error, by a signal, or out of sight.
bool failed(const exec::RankExit& exit);

// "killed by signal 9 (SIGKILL)", "exited with code 4 (input/output error)".
std::string describe_end(const ProcessEnd& end);
// "SIGKILL"
std::string signal_name(int number);
// "during all_reduce #123", "after all_reduce #123", or "" where the rank never began an operation.
std::string describe_activity(const Json& heartbeat);

// Whether these words of a rank, or of a library in its log, are a reason of its own host's (no room, no route, no such
// library) rather than what others did to it.
bool holds_reason(std::string_view words);

bool stopped(const RankFacts& rank);  // by SIGSTOP or a debugger
bool reported_failure(const RankFacts& rank);

// Of this rank, with its host and its last operation; of nobody where there is no such rank.
record::Failure failure_at(const std::vector<RankFacts>& ranks, int64_t rank, std::string kind, std::string message);

// Ranks `missing`, of whom there is one at least, that have not come to the rendezvous: "ranks 0, 2 on n1, n2 HOW";
// with the reason of the first of them that has one.
record::Failure not_joined(const std::vector<RankFacts>& ranks, const std::vector<size_t>& missing,
                           const std::string& how);

// Once something went wrong, the culprit is, in this order
//  1. a rank that said what none may say;
//  2. the first rank that was killed by a signal, or ended with a code that is no communication error, or whose host is
//     out of reach, with the others there. One that ended without a word gives way to one that ended with a reason;
//  3. a rank that reports an error of its own;
//  4. a rank whose process is stopped;
//  5. a rank that has not come to the rendezvous, where others gave up waiting for it;
//  6. a rank that is alive but has stopped heart-beating (the longest silent one);
//  7. the first rank that ended or reported and has a reason, in its report or its log;
//  8. nobody, where the ranks wait in MPI_Init: what keeps them from coming up is mpirun, or who connects to its ports;
//  9. the rank with the lowest sequence number, where they differ;
// 10. the first one that ended or reported: it is named, the cause stays with its message.
// Of commands of others (not `own_worker`) the ends alone can be seen: the first with an error, as in 2.
// log_tail and times are the caller's.
record::Failure name_culprit(const std::vector<RankFacts>& ranks, bool own_worker = true);

}  // namespace mlbench::supervise
