#pragma once

// Which rank broke a run, and how to say it. Pure: from what the supervisor saw of each rank.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/record/build_record.h"

namespace mlbench::supervise {

struct RankFacts {
  std::string host;
  std::optional<ProcessEnd> end;  // by its own doing, not ours
  int64_t end_order = 0;          // of the ends: 0 was seen first
  bool lost = false;              // the end was not seen: its host is out of reach
  std::string why = {};           // what its host says of the end
  std::string fault = {};         // of net::RankStatus
  bool joined = false;
  std::optional<double> heartbeat_age_s;  // since the last heartbeat; empty: none yet
  Json heartbeat = Json::object();        // {"operation", "sequence", "in_progress", "since_s", "step"}
  std::optional<Json> report;             // {"event": "failure", "kind", "operation", ...}
  std::string log_reason = {};            // the last line of its log that holds a reason (holds_reason()), if any
  char process_state = '?';               // as in /proc/PID/stat; '?': not on this host, or gone
};

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

// "ranks 2, 3 on n2: the link to their host was lost": `rank` and all of its host that were lost.
record::Failure lost_host(const std::vector<RankFacts>& ranks, size_t rank);

// Ranks `missing`, of whom there is one at least, that have not come to the rendezvous: "ranks 0, 2 on n1, n2 HOW";
// with the reason of the first of them that has one.
record::Failure not_joined(const std::vector<RankFacts>& ranks, const std::vector<size_t>& missing,
                           const std::string& how);

// Called once something went wrong; in this order the culprit is
//  1. the first rank that was killed by a signal, or ended with a code that is no communication error, or reported an
//     error of its own; or whose host is out of reach, with the others there. One that ended without a word gives way
//     to one that ended, too, with a reason;
//  2. a rank whose process is stopped;
//  3. a rank that has not come to the rendezvous, where others gave up waiting for it;
//  4. a rank that is alive but has stopped heart-beating (the longest silent one);
//  5. the first rank that ended or reported and has a reason, in its report or its log;
//  6. nobody, where the ranks wait in MPI_Init: what keeps them from coming up is mpirun, or who connects to its ports;
//  7. the rank with the lowest sequence number, where they differ;
//  8. the first one that ended or reported: it is named, the cause stays with its message.
// log_tail and times are the caller's.
record::Failure name_culprit(const std::vector<RankFacts>& ranks);

// The same of commands of others, whose ends alone can be seen, and whose exit codes mean what they like. Empty: none
// has failed.
std::optional<record::Failure> name_culprit_of_commands(const std::vector<RankFacts>& ranks);

}  // namespace mlbench::supervise
