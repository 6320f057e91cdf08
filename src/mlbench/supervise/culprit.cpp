#include "mlbench/supervise/culprit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/record/events.h"

namespace mlbench::supervise {
namespace {

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

// As the system and libraries put it; in lower case.
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

bool communication_code(int code) {
  return code == static_cast<int>(ExitCode::kCommError) || code == static_cast<int>(ExitCode::kSupervisorLost);
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
    return otherwise;  // a rank's words are no reason to fall over
  }
}

// A rank's own failure, not what a peer's did to it.
bool reported_own_failure(const RankFacts& rank) {
  const auto kind = field<std::string>(rank.report, "kind", "");
  return reported_failure(rank) && (kind == "rank_error" || kind == "io_error" || kind == "disk_full");
}

// What a peer's failure, or the way to it, did to this rank.
bool communication_kind(const RankFacts& rank) {
  const auto kind = field<std::string>(rank.report, "kind", "");
  return kind == "comm_timeout" || kind == "comm_error";
}

std::string kind_of(const RankFacts& rank) {
  return field<std::string>(rank.report, "kind", "") == "disk_full" ? "disk_full" : "rank_error";
}

std::string who(const std::vector<RankFacts>& ranks, size_t rank) {
  return fmt::format("rank {} on {}", rank, ranks[rank].host);
}

std::string with_space(const std::string& text) { return text.empty() ? "" : " " + text; }

// The reports of the others, as the second half of a message about a rank that says nothing itself.
std::string what_peers_say(const std::vector<RankFacts>& ranks, size_t culprit) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == culprit || !reported_failure(ranks[rank])) continue;
    return fmt::format("; rank {} reported: {}", rank, field<std::string>(ranks[rank].report, "message", "no message"));
  }
  return "";
}

record::Failure failure_of(const std::vector<RankFacts>& ranks, size_t rank, std::string kind, std::string message) {
  const RankFacts& facts = ranks[rank];
  record::Failure failure;
  failure.kind = std::move(kind);
  failure.rank = static_cast<int64_t>(rank);
  failure.host = facts.host;
  // The report is later than the last heartbeat, where there is one.
  failure.operation =
      field<std::string>(facts.report, "operation", field<std::string>(facts.heartbeat, "operation", ""));
  failure.sequence = field<int64_t>(facts.report, "sequence", field<int64_t>(facts.heartbeat, "sequence", -1));
  // A rank that went silent before it said anything: what the others waited for it in, else were last seen in.
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

record::Failure broken_protocol(const std::vector<RankFacts>& ranks, size_t rank, const std::string& fault) {
  return failure_of(ranks, rank, "rank_error", fmt::format("{} breaks the protocol: {}", who(ranks, rank), fault));
}

}  // namespace

record::Failure failure_at(const std::vector<RankFacts>& ranks, int64_t rank, std::string kind, std::string message) {
  if (rank >= 0 && rank < std::ssize(ranks)) {
    return failure_of(ranks, static_cast<size_t>(rank), std::move(kind), std::move(message));
  }
  record::Failure failure;
  failure.kind = std::move(kind);
  failure.message = std::move(message);
  return failure;
}

record::Failure lost_host(const std::vector<RankFacts>& ranks, size_t rank) {
  if (!ranks[rank].why.empty()) return broken_protocol(ranks, rank, ranks[rank].why);
  std::vector<size_t> lost;
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (ranks[other].lost && ranks[other].host == ranks[rank].host) lost.push_back(other);
  }
  const bool alone = lost.size() == 1;
  return failure_of(ranks, rank, "host_lost",
                    fmt::format("{} {} on {}: the link to {} host was lost", alone ? "rank" : "ranks",
                                fmt::join(lost, ", "), ranks[rank].host, alone ? "its" : "their"));
}

record::Failure not_joined(const std::vector<RankFacts>& ranks, const std::vector<size_t>& missing,
                           const std::string& how) {
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

std::optional<size_t> first_ended(const std::vector<RankFacts>& ranks, bool (*matches)(const RankFacts&)) {
  std::optional<size_t> first;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].end || !matches(ranks[rank])) continue;
    if (!first || ranks[rank].end_order < ranks[*first].end_order) first = rank;
  }
  return first;
}

// What a rank says itself of its failure.
std::string words_of(const RankFacts& rank) {
  const auto reported = field<std::string>(rank.report, "message", "");
  // The log may know more than who only waited.
  if (reported.empty() || (!holds_reason(reported) && communication_kind(rank) && !rank.log_reason.empty())) {
    return reported.empty() ? rank.log_reason : reported + "; its log: " + rank.log_reason;
  }
  return reported;
}

bool failed_itself(const RankFacts& rank) { return (rank.end && rank.end->code != 0) || reported_failure(rank); }

std::optional<size_t> first_with_reason(const std::vector<RankFacts>& ranks) {
  std::optional<size_t> first;
  const auto order = [&](size_t rank) { return ranks[rank].end ? ranks[rank].end_order : std::ssize(ranks); };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!failed_itself(ranks[rank]) || !holds_reason(words_of(ranks[rank]))) continue;
    if (!first || order(rank) < order(*first)) first = rank;
  }
  return first;
}

// Without a word: not killed, and nothing in its report or log.
bool says_nothing(const RankFacts& rank) { return !rank.lost && !rank.end->signal && words_of(rank).empty(); }

std::optional<record::Failure> ended_by_itself(const std::vector<RankFacts>& ranks) {
  auto first = first_ended(
      ranks, [](const RankFacts& rank) { return rank.end->code != 0 && !communication_code(rank.end->code); });
  if (first && says_nothing(ranks[*first])) {
    const auto cause = first_with_reason(ranks);
    if (cause && ranks[*cause].end) first = cause;
  }
  if (first && ranks[*first].lost) return lost_host(ranks, *first);
  if (first) {
    const RankFacts& rank = ranks[*first];
    const bool killed = rank.end->signal.has_value();
    const auto words = words_of(rank);
    return failure_of(ranks, *first, killed ? "rank_died" : kind_of(rank),
                      fmt::format("{} {}{}{}{}{}", who(ranks, *first), killed ? "was " : "", describe_end(*rank.end),
                                  with_space(describe_activity(rank.heartbeat)), words.empty() ? "" : ": " + words,
                                  rank.why.empty() ? "" : ", " + rank.why));
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (reported_own_failure(ranks[rank])) {
      return failure_of(ranks, rank, kind_of(ranks[rank]),
                        fmt::format("{} failed: {}", who(ranks, rank),
                                    field<std::string>(ranks[rank].report, "message", "no message")));
    }
  }
  return std::nullopt;
}

// Ranks that live and have not come, where others were at the rendezvous and gave up. One that ended before it came
// says more by that.
std::optional<record::Failure> waited_for_in_vain(const std::vector<RankFacts>& ranks) {
  std::vector<size_t> missing;
  std::optional<size_t> waited;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankFacts& facts = ranks[rank];
    if (!facts.joined && facts.end) return std::nullopt;
    if (!facts.joined) missing.push_back(rank);
    if (facts.joined && !waited && facts.end && facts.end->code == static_cast<int>(ExitCode::kCommError))
      waited = rank;
  }
  if (missing.empty() || !waited) return std::nullopt;
  return not_joined(ranks, missing,
                    fmt::format("did not join the rendezvous, where rank {} waited; it {}", *waited,
                                describe_end(*ranks[*waited].end)));
}

std::optional<size_t> longest_silent(const std::vector<RankFacts>& ranks) {
  std::optional<size_t> silent;
  double freshest = 0;
  size_t heard = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto age = ranks[rank].heartbeat_age_s;
    if (!age || (ranks[rank].end && ranks[rank].end->code == 0)) continue;  // one that is done has nothing to say
    if (heard == 0 || *age < freshest) freshest = *age;
    ++heard;
    if (ranks[rank].end || reported_failure(ranks[rank]) || *age < kSilent_s) continue;
    if (!silent || *age > *ranks[*silent].heartbeat_age_s) silent = rank;
  }
  // When all are silent, the machine was busy or the supervisor slept: no evidence against one.
  if (silent && heard > 1 && *ranks[*silent].heartbeat_age_s < freshest + kSilent_s / 2) return std::nullopt;
  return silent;
}

std::optional<size_t> furthest_behind(const std::vector<RankFacts>& ranks) {
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

std::optional<record::Failure> never_came_up(const std::vector<RankFacts>& ranks) {
  const auto waits = [](const RankFacts& rank) {
    return field<std::string>(rank.report, "operation", "") == "MPI_Init";
  };
  const auto first = std::find_if(ranks.begin(), ranks.end(), waits);
  if (first == ranks.end()) return std::nullopt;
  record::Failure failure;
  failure.kind = "start_failed";
  failure.operation = "MPI_Init";
  failure.message = fmt::format("{}; mpirun, or somebody who connected to its ports, kept the ranks from coming up",
                                field<std::string>(first->report, "message", "MPI_Init has not ended"));
  return failure;
}

std::string how_it_failed(const RankFacts& rank) { return rank.end ? describe_end(*rank.end) : "reported a failure"; }

// comm_timeout or comm_error, as the ranks that noticed say.
std::string noticed_kind(const std::vector<RankFacts>& ranks) {
  for (const RankFacts& rank : ranks) {
    const auto kind = field<std::string>(rank.report, "kind", "");
    if (reported_failure(rank) && communication_kind(rank)) return kind;
  }
  return std::any_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) { return rank.end.has_value(); })
             ? "comm_error"
             : "comm_timeout";
}

}  // namespace

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

record::Failure name_culprit(const std::vector<RankFacts>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].fault.empty()) return broken_protocol(ranks, rank, ranks[rank].fault);
  }
  if (auto failure = ended_by_itself(ranks)) return *failure;

  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (stopped(ranks[rank])) {
      return failure_of(
          ranks, rank, "comm_timeout",
          fmt::format("{} is stopped (state {}, as by SIGSTOP){}{}", who(ranks, rank), ranks[rank].process_state,
                      with_space(describe_activity(ranks[rank].heartbeat)), what_peers_say(ranks, rank)));
    }
  }
  if (auto failure = waited_for_in_vain(ranks)) return *failure;
  if (const auto silent = longest_silent(ranks)) {
    return failure_of(
        ranks, *silent, "comm_timeout",
        fmt::format("{} sends no heartbeat for {:.0f} s{}{}", who(ranks, *silent), *ranks[*silent].heartbeat_age_s,
                    with_space(describe_activity(ranks[*silent].heartbeat)), what_peers_say(ranks, *silent)));
  }
  const std::string kind = noticed_kind(ranks);
  const auto named = [&](size_t rank) {
    const std::string words = words_of(ranks[rank]);
    return failure_of(
        ranks, rank, kind,
        fmt::format("{} {}{}{}", who(ranks, rank), how_it_failed(ranks[rank]),
                    with_space(describe_activity(ranks[rank].heartbeat)), words.empty() ? "" : ": " + words));
  };
  if (const auto cause = first_with_reason(ranks)) return named(*cause);
  if (auto failure = never_came_up(ranks)) return *failure;
  if (const auto behind = furthest_behind(ranks)) {
    return failure_of(
        ranks, *behind, kind,
        fmt::format("{} is behind its peers{}{}", who(ranks, *behind),
                    with_space(describe_activity(ranks[*behind].heartbeat)), what_peers_say(ranks, *behind)));
  }
  std::optional<size_t> first = first_ended(ranks, [](const RankFacts& rank) { return rank.end->code != 0; });
  for (size_t rank = 0; rank < ranks.size() && !first; ++rank) {
    if (reported_failure(ranks[rank])) first = rank;
  }
  if (!first) {
    record::Failure unknown;
    unknown.kind = kind;
    unknown.message = "the ranks stopped making progress; no rank stands out";
    return unknown;
  }
  return named(*first);
}

std::optional<record::Failure> name_culprit_of_commands(const std::vector<RankFacts>& ranks) {
  auto first = first_ended(ranks, [](const RankFacts& rank) { return rank.end->code != 0; });
  if (!first) return std::nullopt;
  if (ranks[*first].lost) return lost_host(ranks, *first);
  if (says_nothing(ranks[*first])) {
    const auto cause = first_with_reason(ranks);
    if (cause && ranks[*cause].end) first = cause;
  }
  const RankFacts& rank = ranks[*first];
  record::Failure failure;
  failure.kind = rank.end->signal ? "rank_died" : "rank_error";
  failure.rank = static_cast<int64_t>(*first);
  failure.host = rank.host;
  failure.message =
      fmt::format("{} {}{}{}", who(ranks, *first),
                  rank.end->signal ? "was killed by " + signal_name(*rank.end->signal)
                                   : fmt::format("exited with code {}", rank.end->code),
                  rank.why.empty() ? "" : ", " + rank.why, rank.log_reason.empty() ? "" : ": " + rank.log_reason);
  // What it may have waited for.
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (!stopped(ranks[other])) continue;
    failure.message +=
        fmt::format("; {} is stopped (state {}, as by SIGSTOP)", who(ranks, other), ranks[other].process_state);
  }
  return failure;
}

}  // namespace mlbench::supervise
