#include "mlbench/supervise/culprit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>

#include <algorithm>
#include <span>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/record/events.h"

namespace mlbench::supervise {
namespace {

using Ranks = std::vector<RankFacts>;

// Heartbeats come four times a second; a rank on a crowded machine may be late, a silent one is silent for good.
constexpr double kSilent_s = 4;

std::string_view meaning_of(int exit_code) {
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::kOk:
      return "";
    case ExitCode::kInternalError:
      return "internal error";
    case ExitCode::kUserError:
      return "wrong input";
    case ExitCode::kCommError:
      return "communication error";
    case ExitCode::kIoError:
      return "input/output error";
    case ExitCode::kRunFailed:
      return "";
    case ExitCode::kSupervisorLost:
      return "lost its supervisor";
    case ExitCode::kStopped:
      return "stopped";
  }
  return "";
}

// Reasons in the words of the system and of libraries, in lower case.
constexpr std::string_view kReasons[] = {"no space left on device",
                                         "no room for ",
                                         "not enough space",
                                         "disk quota exceeded",
                                         "cannot allocate memory",
                                         "out of memory",
                                         "bus error",
                                         "no route to host",
                                         "network is unreachable",
                                         "network is down",
                                         "no way to ",
                                         "cannot reach the rendezvous",
                                         "cannot assign requested address",
                                         "address already in use",
                                         "name or service not known",
                                         "temporary failure in name resolution",
                                         "too many open files",
                                         "file too large",
                                         "read-only file system",
                                         "error while loading shared libraries",
                                         "cannot open shared object file",
                                         "undefined symbol",
                                         "nccl warn",
                                         "mpi_init has failed",
                                         "unable to reach each other"};

bool communication_code(const exec::RankExit& exit) {
  return exit.end.code == static_cast<int>(ExitCode::kCommError) ||
         exit.end.code == static_cast<int>(ExitCode::kSupervisorLost);
}

template <typename T>
T field(const std::optional<Json>& json, const char* key, T otherwise) {
  if (!json || !json->is_object()) return otherwise;
  const auto found = json->find(key);
  if (found == json->end() || found->is_null()) return otherwise;
  if constexpr (std::is_same_v<T, int64_t>) return integer_of(*found).value_or(otherwise);
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    return otherwise;  // a malformed report must not end the supervisor
  }
}

// Whether a rank reported a failure of its own, not the effect of a peer's.
bool reported_own_failure(const RankFacts& rank) {
  const auto kind = field<std::string>(rank.report, "kind", "");
  return reported_failure(rank) && (kind == "rank_error" || kind == "io_error" || kind == "disk_full");
}

// Whether a rank reported the effect of a peer's failure, or of the network.
bool communication_kind(const RankFacts& rank) {
  const auto kind = field<std::string>(rank.report, "kind", "");
  return kind == "comm_timeout" || kind == "comm_error";
}

std::string kind_of(const RankFacts& rank) {
  return field<std::string>(rank.report, "kind", "") == "disk_full" ? "disk_full" : "rank_error";
}

std::string who(const Ranks& ranks, size_t rank) { return fmt::format("rank {} on {}", rank, ranks[rank].host); }

std::string with_space(const std::string& text) { return text.empty() ? "" : " " + text; }

// The reports of the others, as the second half of a message about a rank that says nothing itself.
std::string what_peers_say(const Ranks& ranks, size_t culprit) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == culprit || !reported_failure(ranks[rank])) continue;
    return fmt::format("; rank {} reported: {}", rank, field<std::string>(ranks[rank].report, "message", "no message"));
  }
  return "";
}

record::Failure failure_of(const Ranks& ranks, size_t rank, std::string kind, std::string message) {
  const RankFacts& facts = ranks[rank];
  record::Failure failure;
  failure.kind = std::move(kind);
  failure.rank = static_cast<int64_t>(rank);
  failure.host = facts.host;
  // The report is later than the last heartbeat, where there is one.
  failure.operation =
      field<std::string>(facts.report, "operation", field<std::string>(facts.heartbeat, "operation", ""));
  failure.sequence = field<int64_t>(facts.report, "sequence", field<int64_t>(facts.heartbeat, "sequence", -1));
  // A rank may go silent before it says anything: then the operation is the one in which others waited for it, or were
  // last seen.
  const auto take = [&](const std::optional<Json>& said) {
    if (!failure.operation.empty()) return;
    failure.operation = field<std::string>(said, "operation", "");
    failure.sequence = field<int64_t>(said, "sequence", -1);
  };
  for (const RankFacts& peer : ranks) take(reported_failure(peer) ? peer.report : std::nullopt);
  for (const RankFacts& peer : ranks) take(peer.heartbeat);
  failure.message = std::move(message);
  return failure;
}

// A rank broke the protocol of the rendezvous, or its guard that of the link.
record::Failure broken_protocol(const Ranks& ranks, size_t rank) {
  const std::string& fault = ranks[rank].fault.empty() ? ranks[rank].exit->why : ranks[rank].fault;
  return failure_of(ranks, rank, "rank_error", fmt::format("{} breaks the protocol: {}", who(ranks, rank), fault));
}

// "ranks 2, 3 on n2: the link to their host was lost": names `rank` and all lost ranks of its host.
record::Failure lost_host(const Ranks& ranks, size_t rank) {
  if (!ranks[rank].exit->why.empty()) return broken_protocol(ranks, rank);
  std::vector<size_t> lost;
  for (size_t other = 0; other < ranks.size(); ++other) {
    const auto& exit = ranks[other].exit;
    if (exit && exit->lost && ranks[other].host == ranks[rank].host) lost.push_back(other);
  }
  const bool alone = lost.size() == 1;
  return failure_of(ranks, rank, "host_lost",
                    fmt::format("{} {} on {}: the link to {} host was lost", alone ? "rank" : "ranks",
                                fmt::join(lost, ", "), ranks[rank].host, alone ? "its" : "their"));
}

}  // namespace

record::Failure failure_at(const Ranks& ranks, int64_t rank, std::string kind, std::string message) {
  if (rank >= 0 && rank < std::ssize(ranks)) {
    return failure_of(ranks, static_cast<size_t>(rank), std::move(kind), std::move(message));
  }
  record::Failure failure;
  failure.kind = std::move(kind);
  failure.message = std::move(message);
  return failure;
}

record::Failure not_joined(const Ranks& ranks, const std::vector<size_t>& missing, const std::string& how) {
  const auto reason = std::ranges::find_if(missing, [&](size_t rank) { return !ranks[rank].log_reason.empty(); });
  const size_t named = reason == missing.end() ? missing.front() : *reason;
  record::Failure failure;
  failure.kind = "start_failed";
  failure.rank = static_cast<int64_t>(named);
  failure.host = ranks[named].host;
  std::vector<std::string> hosts;
  for (const size_t rank : missing) {
    if (std::ranges::find(hosts, ranks[rank].host) == hosts.end()) hosts.push_back(ranks[rank].host);
  }
  failure.message = fmt::format("{} {} on {} {}", missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "),
                                fmt::join(hosts, ", "), how);
  if (reason != missing.end()) failure.message += fmt::format("; rank {}: {}", named, ranks[named].log_reason);
  return failure;
}

namespace {

std::optional<size_t> first_ended(const Ranks& ranks, bool (*matches)(const exec::RankExit&)) {
  std::optional<size_t> first;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].exit || !matches(*ranks[rank].exit)) continue;
    if (!first || ranks[rank].exit_order < ranks[*first].exit_order) first = rank;
  }
  return first;
}

// What a rank itself says about its failure.
std::string words_of(const RankFacts& rank) {
  const auto reported = field<std::string>(rank.report, "message", "");
  // The log may know more than a rank that only waited.
  if (reported.empty() || (!holds_reason(reported) && communication_kind(rank) && !rank.log_reason.empty())) {
    return reported.empty() ? rank.log_reason : reported + "; its log: " + rank.log_reason;
  }
  return reported;
}

bool failed_itself(const RankFacts& rank) { return (rank.exit && failed(*rank.exit)) || reported_failure(rank); }

std::optional<size_t> first_with_reason(const Ranks& ranks) {
  std::optional<size_t> first;
  const auto order = [&](size_t rank) { return ranks[rank].exit ? ranks[rank].exit_order : INT64_MAX; };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!failed_itself(ranks[rank]) || !holds_reason(words_of(ranks[rank]))) continue;
    if (!first || order(rank) < order(*first)) first = rank;
  }
  return first;
}

// A rank that ended without a word (not killed, and nothing in its report or log) gives way to one that also ended, but
// with a reason.
size_t unless_silent(const Ranks& ranks, size_t first) {
  const RankFacts& rank = ranks[first];
  if (rank.exit->lost || rank.exit->end.signal || !words_of(rank).empty()) return first;
  const auto cause = first_with_reason(ranks);
  return cause && ranks[*cause].exit ? *cause : first;
}

// The first rank that gave up at the rendezvous, waiting for ranks that live and have not joined. Empty where one of
// these has ended, since its end says more.
std::optional<size_t> who_waited_in_vain(const Ranks& ranks) {
  bool missing = false;
  std::optional<size_t> waited;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankFacts& facts = ranks[rank];
    if (!facts.joined && facts.exit) return std::nullopt;
    missing = missing || !facts.joined;
    const bool gave_up = facts.exit && facts.exit->end.code == static_cast<int>(ExitCode::kCommError);
    if (facts.joined && !waited && gave_up) waited = rank;
  }
  return missing ? waited : std::nullopt;
}

// How long the rank did not run just before, as it says itself.
double paused_s(const RankFacts& rank) {
  constexpr double kMost = 1e6;  // a rank may say anything
  const double reported = field<double>(rank.report, "paused_s", 0);
  return std::min(kMost, std::max(reported, field<double>(rank.heartbeat, "paused_s", 0)));
}

std::optional<size_t> longest_paused(const Ranks& ranks) {
  const auto longest = std::ranges::max_element(ranks, {}, paused_s);
  if (longest == ranks.end() || paused_s(*longest) < kSilent_s) return std::nullopt;
  // When others paused about as long, the machine was stopped: that is no evidence against one rank.
  const double about_as_long = paused_s(*longest) - kSilent_s / 2;
  if (std::ranges::count_if(
          ranks, [&](double pause) { return pause > about_as_long; }, paused_s) > 1) {
    return std::nullopt;
  }
  return static_cast<size_t>(longest - ranks.begin());
}

std::optional<size_t> longest_silent(const Ranks& ranks) {
  std::optional<size_t> silent;
  double freshest = 0;
  size_t heard = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto age = ranks[rank].heartbeat_age_s;
    if (!age || (ranks[rank].exit && !failed(*ranks[rank].exit))) continue;  // a rank that is done sends no heartbeat
    if (heard == 0 || *age < freshest) freshest = *age;
    ++heard;
    if (ranks[rank].exit || reported_failure(ranks[rank]) || *age < kSilent_s) continue;
    if (!silent || *age > *ranks[*silent].heartbeat_age_s) silent = rank;
  }
  // When all are silent, the machine was busy or the supervisor slept: that is no evidence against one rank.
  if (silent && heard > 1 && *ranks[*silent].heartbeat_age_s < freshest + kSilent_s / 2) return std::nullopt;
  return silent;
}

std::optional<size_t> furthest_behind(const Ranks& ranks) {
  std::optional<size_t> behind;
  int64_t lowest = 0, highest = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const int64_t sequence =
        field<int64_t>(ranks[rank].report, "sequence", field<int64_t>(ranks[rank].heartbeat, "sequence", -1));
    if (sequence < 0) continue;
    if (!behind || sequence < lowest) {
      lowest = sequence;
      if (!behind) highest = sequence;
      behind = rank;
    }
    highest = std::max(highest, sequence);
  }
  if (!behind || lowest == highest) return std::nullopt;
  return behind;
}

// The kind, comm_timeout or comm_error, that the ranks report.
std::string noticed_kind(const Ranks& ranks) {
  for (const RankFacts& rank : ranks) {
    const auto kind = field<std::string>(rank.report, "kind", "");
    if (reported_failure(rank) && communication_kind(rank)) return kind;
  }
  return std::any_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) { return rank.exit.has_value(); })
             ? "comm_error"
             : "comm_timeout";
}

// ---- what is said of a rank

// A failure whose text says what the rank did, its last operation, and what else is known.
record::Failure says(const Ranks& ranks, size_t rank, std::string kind, const std::string& did,
                     const std::string& more) {
  return failure_of(
      ranks, rank, std::move(kind),
      fmt::format("{} {}{}{}", who(ranks, rank), did, with_space(describe_activity(ranks[rank].heartbeat)), more));
}

std::string behind(const char* before, const std::string& words) { return words.empty() ? "" : before + words; }

record::Failure ended(const Ranks& ranks, size_t first) {
  const RankFacts& rank = ranks[first];
  if (rank.exit->lost) return lost_host(ranks, first);
  const bool killed = rank.exit->end.signal.has_value();
  return says(ranks, first, killed ? "rank_died" : kind_of(rank), (killed ? "was " : "") + describe_end(rank.exit->end),
              behind(": ", words_of(rank)) + behind(", ", rank.exit->why));
}

record::Failure noticed(const Ranks& ranks, size_t rank) {
  const auto& exit = ranks[rank].exit;
  return says(ranks, rank, noticed_kind(ranks), exit ? describe_end(exit->end) : "reported a failure",
              behind(": ", words_of(ranks[rank])));
}

record::Failure reported(const Ranks& ranks, size_t rank) {
  const auto words = field<std::string>(ranks[rank].report, "message", "no message");
  return failure_of(ranks, rank, kind_of(ranks[rank]), fmt::format("{} failed: {}", who(ranks, rank), words));
}

record::Failure is_stopped(const Ranks& ranks, size_t rank) {
  return says(ranks, rank, "comm_timeout",
              fmt::format("is stopped (state {}, as by SIGSTOP)", ranks[rank].process_state),
              what_peers_say(ranks, rank));
}

record::Failure was_paused(const Ranks& ranks, size_t rank) {
  return says(ranks, rank, "comm_timeout",
              fmt::format("did not run for {:.0f} s (stopped, or without a processor)", paused_s(ranks[rank])),
              what_peers_say(ranks, rank));
}

record::Failure is_silent(const Ranks& ranks, size_t rank) {
  return says(ranks, rank, "comm_timeout", fmt::format("sends no heartbeat for {:.0f} s", *ranks[rank].heartbeat_age_s),
              what_peers_say(ranks, rank));
}

record::Failure is_behind(const Ranks& ranks, size_t rank) {
  return says(ranks, rank, noticed_kind(ranks), "is behind its peers", what_peers_say(ranks, rank));
}

record::Failure was_waited_for(const Ranks& ranks, size_t waited) {
  std::vector<size_t> missing;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].joined) missing.push_back(rank);
  }
  return not_joined(ranks, missing,
                    fmt::format("did not join the rendezvous, where rank {} waited; it {}", waited,
                                describe_end(ranks[waited].exit->end)));
}

record::Failure never_came_up(const Ranks& ranks, size_t waits) {
  record::Failure failure;
  failure.kind = "start_failed";
  failure.operation = "MPI_Init";
  failure.message = fmt::format("{}; mpirun, or somebody who connected to its ports, kept the ranks from coming up",
                                field<std::string>(ranks[waits].report, "message", "MPI_Init has not ended"));
  return failure;
}

record::Failure ended_command(const Ranks& ranks, size_t first) {
  const RankFacts& rank = ranks[first];
  if (rank.exit->lost) return lost_host(ranks, first);
  const ProcessEnd& end = rank.exit->end;
  record::Failure failure;
  failure.kind = end.signal ? "rank_died" : "rank_error";
  failure.rank = static_cast<int64_t>(first);
  failure.host = rank.host;
  failure.message = fmt::format(
      "{} {}{}{}", who(ranks, first),
      end.signal ? "was killed by " + signal_name(*end.signal) : fmt::format("exited with code {}", end.code),
      behind(", ", rank.exit->why), behind(": ", rank.log_reason));
  // The command may have waited for a stopped rank.
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (!stopped(ranks[other])) continue;
    failure.message +=
        fmt::format("; {} is stopped (state {}, as by SIGSTOP)", who(ranks, other), ranks[other].process_state);
  }
  return failure;
}

// ---- the weights

template <auto is_one>
std::optional<size_t> first_that(const Ranks& ranks) {
  const auto first = std::ranges::find_if(ranks, is_one);
  return first == ranks.end() ? std::nullopt : std::optional(static_cast<size_t>(first - ranks.begin()));
}
bool breaks_protocol(const RankFacts& rank) { return !rank.fault.empty(); }
bool waits_in_mpi_init(const RankFacts& rank) { return field<std::string>(rank.report, "operation", "") == "MPI_Init"; }

std::optional<size_t> who_failed(const Ranks& ranks) {
  const auto first = first_ended(ranks, failed);
  return first ? std::optional(unless_silent(ranks, *first)) : std::nullopt;
}
std::optional<size_t> who_failed_itself(const Ranks& ranks) {
  const auto first =
      first_ended(ranks, [](const exec::RankExit& exit) { return failed(exit) && !communication_code(exit); });
  return first ? std::optional(unless_silent(ranks, *first)) : std::nullopt;
}
std::optional<size_t> who_noticed(const Ranks& ranks) {
  const auto first = first_ended(ranks, failed);
  return first ? first : first_that<reported_failure>(ranks);
}

// A rule: finds the rank that is named, and words the failure. The first rule that finds one is used.
struct Weight {
  std::optional<size_t> (*find)(const Ranks& ranks);
  record::Failure (*say)(const Ranks& ranks, size_t rank);
};
constexpr Weight kWeights[] = {
    {first_that<breaks_protocol>, broken_protocol},
    {who_failed_itself, ended},  // a signal, an error that is none of communication, a host out of reach
    {first_that<reported_own_failure>, reported},
    {first_that<stopped>, is_stopped},
    {longest_paused, was_paused},
    {who_waited_in_vain, was_waited_for},
    {longest_silent, is_silent},
    {first_with_reason, noticed},
    {first_that<waits_in_mpi_init>, never_came_up},  // names nobody: mpirun or its ports
    {furthest_behind, is_behind},
    {who_noticed, noticed},  // the cause stays with its message
};
// For commands of others only their ends are seen, and their exit codes have no common meaning.
constexpr Weight kWeightsOfCommands[] = {{who_failed, ended_command}};

}  // namespace

bool failed(const exec::RankExit& exit) { return exit.lost || exit.end.code != 0; }

bool reported_failure(const RankFacts& rank) {
  return rank.report && record::is(*rank.report, record::EventKind::kFailure);
}

std::string signal_name(int number) {
  const char* abbreviation = sigabbrev_np(number);
  return abbreviation == nullptr ? "unknown" : std::string("SIG") + abbreviation;
}

std::string describe_end(const ProcessEnd& end) {
  if (end.signal) return fmt::format("killed by signal {} ({})", *end.signal, signal_name(*end.signal));
  const std::string_view meaning = meaning_of(end.code);
  return fmt::format("exited with code {}{}", end.code, meaning.empty() ? "" : fmt::format(" ({})", meaning));
}

std::string describe_activity(const Json& heartbeat) {
  const std::optional<Json> json(heartbeat);
  const auto operation = field<std::string>(json, "operation", "");
  if (operation.empty()) return "";
  return fmt::format("{} {} #{}", field<bool>(json, "in_progress", false) ? "during" : "after", operation,
                     field<int64_t>(json, "sequence", 0));
}

bool holds_reason(std::string_view words) {
  std::string lower(words);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::any_of(kReasons, [&](std::string_view one) { return lower.find(one) != std::string::npos; });
}

bool stopped(const RankFacts& rank) { return rank.process_state == 'T' || rank.process_state == 't'; }

record::Failure name_culprit(const Ranks& ranks, bool own_worker) {
  for (const Weight& weight : own_worker ? std::span<const Weight>(kWeights) : kWeightsOfCommands) {
    if (const auto rank = weight.find(ranks)) return weight.say(ranks, *rank);
  }
  record::Failure unknown;
  unknown.kind = noticed_kind(ranks);
  unknown.message = "the ranks stopped making progress; no rank stands out";
  return unknown;
}

}  // namespace mlbench::supervise
