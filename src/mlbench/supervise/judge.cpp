#include "mlbench/supervise/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/input.h"

namespace mlbench::supervise {
namespace {

using std::chrono::seconds;

// After the first sign of trouble, the true cause has this long to show beside what it did to others.
constexpr seconds kGather{1};
// The same while a rank has closed its connection but not ended yet (a core dump takes a while).
constexpr seconds kGatherDying{5};
// The same while nothing is heard of a rank's host: its link is lost after 10 s.
constexpr seconds kGatherSilent{12};
// On top of the communication timeout: what ranks get to notice by themselves before the supervisor acts.
constexpr seconds kGrace{3};

bool somebody_is_dying(const RunView& view) {
  return std::any_of(view.ranks.begin(), view.ranks.end(),
                     [](const RankView& rank) { return !rank.end && rank.status.joined && !rank.status.connected; });
}

}  // namespace

Outcome failed(std::string kind, std::string message, int64_t rank) {
  record::Failure failure;
  failure.rank = rank;
  failure.kind = std::move(kind);
  failure.message = std::move(message);
  return {record::RunState::kFailed, failure, false};
}

Outcome ended_on_request(EndRequest request) {
  if (request == EndRequest::kStop) return {record::RunState::kStopped, std::nullopt, false};
  return failed("launcher_lost", "the command that started this run disappeared; the run ended with it");
}

ExitCode exit_code_of(record::RunState state) {
  switch (state) {
    case record::RunState::kFinished:
      return ExitCode::kOk;
    case record::RunState::kStopped:
      return ExitCode::kStopped;
    default:
      return ExitCode::kRunFailed;
  }
}

JudgeOptions judge_options(const spec::RunSpec& run, int64_t segment, std::chrono::seconds start_timeout) {
  JudgeOptions options;
  options.own_worker = spec::uses_worker(run);
  options.comm_timeout_s = run.comm_timeout_s;
  options.start_timeout = start_timeout;
  options.work_ended = [&run, segment](size_t rank) { return work_ended(run, segment, static_cast<int64_t>(rank)); };
  options.words_left = [&run, segment](size_t rank) { return words_left(run, segment, static_cast<int64_t>(rank)); };
  return options;
}

Judge::Judge(JudgeOptions options, TimePoint begin)
    : options_(std::move(options)), begin_(begin), woke_(begin), last_look_(begin) {}

std::optional<Outcome> Judge::judge(const RunView& view, TimePoint now) {
  if (now - last_look_ > kGrace) woke_ = now;
  last_look_ = now;
  if (auto failure = failure_in(view, now)) {
    const bool lost_place = failure->kind == "host_lost" || (view.launcher_death && view.launcher_death->lost_place);
    return Outcome{record::RunState::kFailed, std::move(failure), lost_place};
  }
  if (!view.running) return Outcome{};
  return std::nullopt;
}

std::vector<RankFacts> Judge::facts_of(const RunView& view, TimePoint now) const {
  std::vector<RankFacts> facts(view.ranks.size());
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    const auto& [status, end, process_state, out_of_reach] = view.ranks[rank];
    RankFacts& fact = facts[rank];
    fact.host = status.host;
    if (end) {
      fact.end = end->end;
      fact.end_order = end->order;
      fact.lost = end->lost;
      fact.why = end->why;
    }
    fact.joined = status.joined;
    fact.fault = status.fault;
    if (status.heartbeat.is_object()) fact.heartbeat = status.heartbeat;
    fact.report = status.report;
    // Ranks begin to beat when all have joined; and a supervisor that was stopped itself has heard nobody.
    if (all_joined_) fact.heartbeat_age_s = to_seconds(now - std::max({status.last_heartbeat, *all_joined_, woke_}));
    fact.process_state = process_state;
  }
  return facts;
}

void Judge::add_words(std::vector<RankFacts>& ranks) const {
  for (size_t rank = 0; rank < ranks.size() && options_.words_left; ++rank) {
    WordsLeft words = options_.words_left(rank);
    if (!ranks[rank].report) ranks[rank].report = std::move(words.report);
    ranks[rank].log_reason = std::move(words.log_reason);
  }
}

std::optional<record::Failure> Judge::failure_in(const RunView& view, TimePoint now) {
  std::vector<RankFacts> ranks = facts_of(view, now);
  if (view.launcher_death) {
    return failure_at(ranks, view.launcher_death->rank, view.launcher_death->kind, view.launcher_death->words);
  }
  if (!all_joined_ && std::all_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) { return rank.joined; })) {
    all_joined_ = now;
  }
  const bool trouble = std::any_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) {
    return (rank.end && rank.end->code != 0) || reported_failure(rank) || !rank.fault.empty();
  });
  if (trouble && !trouble_) trouble_ = now;
  if (!options_.own_worker) {
    // They have no heartbeat: only how they end can be seen.
    if (!trouble || (now - *trouble_ < kGather && view.running)) return std::nullopt;
    add_words(ranks);
    return name_culprit_of_commands(ranks);
  }
  if (trouble) {
    const bool host_is_silent =
        std::ranges::any_of(view.ranks, [](const RankView& rank) { return !rank.end && rank.out_of_reach; });
    const auto patience = host_is_silent ? kGatherSilent : somebody_is_dying(view) ? kGatherDying : kGather;
    if (now - *trouble_ < patience && view.running) return std::nullopt;
    add_words(ranks);
    return name_culprit(ranks);
  }
  if (!all_joined_) return never_joined(ranks, now);
  if (auto failure = left_early(view, ranks, now)) return failure;
  const double limit_s = options_.comm_timeout_s + to_seconds(kGrace);
  const bool silence = std::any_of(ranks.begin(), ranks.end(), [&](const RankFacts& rank) {
    return !rank.end && rank.heartbeat_age_s && *rank.heartbeat_age_s > limit_s;
  });
  if (!silence) return std::nullopt;
  add_words(ranks);
  return name_culprit(ranks);
}

std::optional<record::Failure> Judge::never_joined(std::vector<RankFacts>& ranks, TimePoint now) const {
  std::vector<size_t> missing;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].joined) missing.push_back(rank);
  }
  const bool gone =
      std::all_of(missing.begin(), missing.end(), [&](size_t rank) { return ranks[rank].end.has_value(); });
  if (!gone && now - begin_ < options_.start_timeout) return std::nullopt;
  add_words(ranks);
  return not_joined(ranks, missing,
                    gone ? std::string("ended without joining the rendezvous")
                         : fmt::format("did not join the rendezvous within {} s", options_.start_timeout.count()));
}

// A rank that ended with code 0 in the middle of its work: at once when all have ended, else when it left the others
// waiting for longer than they wait for each other.
std::optional<record::Failure> Judge::left_early(const RunView& view, const std::vector<RankFacts>& ranks,
                                                 TimePoint now) {
  const auto limit = std::chrono::duration<double>(options_.comm_timeout_s) + kGrace;
  work_ended_.resize(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& end = view.ranks[rank].end;
    if (!end) continue;
    if (view.running && now - end->when < limit) continue;
    if (!work_ended_[rank]) work_ended_[rank] = options_.work_ended(rank);
    if (*work_ended_[rank]) continue;
    record::Failure failure;
    failure.kind = "rank_error";
    failure.rank = static_cast<int64_t>(rank);
    failure.host = ranks[rank].host;
    failure.operation = text_member(ranks[rank].heartbeat, "operation");
    failure.sequence = integer_of(ranks[rank].heartbeat.value("sequence", Json())).value_or(-1);
    failure.message = fmt::format("rank {} on {} ended with exit code 0 before its work was done", rank, failure.host);
    return failure;
  }
  return std::nullopt;
}

}  // namespace mlbench::supervise
