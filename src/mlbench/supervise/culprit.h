#pragma once

// Decides which rank broke a run, and words the failure. Its functions are pure: they take what the supervisor saw of
// each rank. When they are asked is decided in table.h.

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

// What is known of a rank at one moment. Times are those at which the supervisor saw something.
struct RankFacts {
  std::string host;
  std::optional<exec::RankExit> exit;  // its end, where the supervisor did not cause it
  int64_t exit_order = 0;              // order of exits, 0 first; of a lost rank: when its host became silent
  TimePoint exit_seen;
  std::optional<TimePoint> silent_since = {};  // since when its host is silent
  int64_t silence_order = 0;                   // order of `silent_since` among all observations
  std::optional<TimePoint> back_at = {};       // when its host was heard again
  bool joined = false;
  std::optional<TimePoint> closed_since = {};  // since when its connection to the rendezvous is closed
  std::string fault = {};                      // `fault` of net::RankStatus
  TimePoint fault_seen;
  std::optional<TimePoint> heard_at = {};  // its last heartbeat, or since when there could be one
  std::optional<double> heartbeat_age_s;   // time since `heard_at`
  Json heartbeat = Json::object();         // {"operation", "sequence", "in_progress", "since_s", "step", "paused_s"}
  std::optional<Json> report;              // {"event": "failure", "kind", "operation", ...}
  TimePoint report_seen;
  std::string log_reason = {};  // the last line of its log that holds a reason (holds_reason()), if any
  char process_state = '?';     // as in /proc/PID/stat; '?': not on this host, or gone
};

// Whether the rank ended with an error or by a signal, or is out of sight.
bool failed(const exec::RankExit& exit);

// "killed by signal 9 (SIGKILL)", "exited with code 4 (input/output error)".
std::string describe_end(const ProcessEnd& end);
// "SIGKILL"
std::string signal_name(int number);
// "during all_reduce #123", "after all_reduce #123", or "" where the rank never began an operation.
std::string describe_activity(const Json& heartbeat);

// Whether `words` (a rank's, or a library's in its log) hold a reason that lies with the rank's own host: no space, no
// route, a missing library. Words about what other ranks did hold none.
bool holds_reason(std::string_view words);

bool stopped(const RankFacts& rank);  // by SIGSTOP or a debugger
bool reported_failure(const RankFacts& rank);

// A failure of rank `rank`, with its host and last operation; of no rank where there is none of that number.
record::Failure failure_at(const std::vector<RankFacts>& ranks, int64_t rank, std::string kind, std::string message);

// A failure of the ranks `missing`, which have not joined the rendezvous: "ranks 0, 2 on n1, n2 HOW", with the reason
// of the first of them that has one. Precondition: `missing` is not empty.
record::Failure not_joined(const std::vector<RankFacts>& ranks, const std::vector<size_t>& missing,
                           const std::string& how);

// Names the culprit once something went wrong: the first that exists in this order.
//  1. a rank that broke the protocol;
//  2. the first rank that was killed by a signal, or ended with a code that is no communication error, or whose host is
//     out of reach, with the others there. A rank that ended without a word gives way to one that ended with a reason;
//  3. a rank that reports an error of its own;
//  4. a rank whose process is stopped;
//  5. a rank that did not run just before, as it says itself (the one with the longest pause);
//  6. a rank that has not joined the rendezvous, where others gave up waiting for it;
//  7. a rank that is alive but has stopped sending heartbeats (the one that is silent for longest);
//  8. the first rank that ended or reported a failure and has a reason in its report or its log;
//  9. nobody, where the ranks wait in MPI_Init: mpirun, or whoever connects to its ports, keeps them from coming up;
// 10. the rank with the lowest sequence number, where they differ;
// 11. the first rank that ended or reported a failure: the cause stays with its message.
// Where ranks are commands of others (not `own_worker`), only their ends are seen: the first with an error is named, as
// in 2. The caller adds log_tail and times.
record::Failure name_culprit(const std::vector<RankFacts>& ranks, bool own_worker = true);

}  // namespace mlbench::supervise
