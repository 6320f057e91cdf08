#include "mlbench/supervise/judge.h"

#include <algorithm>
#include <utility>

#include "mlbench/base/clock.h"

namespace mlbench::supervise {
namespace {

using std::chrono::seconds;

// After a longer pause between two looks, this process itself was stopped.
constexpr seconds kPause{3};

std::optional<TimePoint> since(bool is_so, const std::optional<TimePoint>& before, TimePoint now) {
  return is_so ? before.value_or(now) : std::optional<TimePoint>();
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
  if (request != EndRequest::kLauncherLost) return {record::RunState::kStopped, std::nullopt, false};
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

Judge::Judge(JudgeOptions options, TimePoint begin) : options_(std::move(options)), woke_(begin), last_look_(begin) {
  scene_.begin = begin;
  scene_.own_worker = options_.own_worker;
  scene_.comm_timeout = std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(options_.comm_timeout_s));
  scene_.start_timeout = options_.start_timeout;
  scene_.verdict_time = options_.verdict_time;
  scene_.work_ended = [this](size_t rank) { return had_ended_work(rank); };
}

RankFacts& Judge::facts_of(int rank) {
  const auto index = static_cast<size_t>(rank);
  if (index >= scene_.ranks.size()) scene_.ranks.resize(index + 1);
  return scene_.ranks[index];
}

void Judge::see(const exec::Observation& seen, TimePoint now) {
  const int64_t order = seen_++;
  if (const auto* word = std::get_if<exec::EngineWord>(&seen)) {
    const bool known = std::ranges::any_of(scene_.engine, [&](const HeardWord& one) {
      return one.word.fact == word->fact && one.word.rank == word->rank;
    });
    if (!known) scene_.engine.push_back({*word, now, order});
  } else if (const auto* silence = std::get_if<exec::RankSilence>(&seen)) {
    RankFacts& rank = facts_of(silence->rank);
    rank.silent_since = since(!silence->over, rank.silent_since, now);
    rank.silence_order = order;
    if (silence->over) rank.back_at = now;
  } else {
    const auto& exit = std::get<exec::RankExit>(seen);
    RankFacts& rank = facts_of(exit.rank);
    rank.exit = exit;
    rank.exit_seen = now;
    rank.exit_order = exit.lost && rank.silent_since ? rank.silence_order : order;
  }
}

std::optional<Outcome> Judge::judge(const RunView& view, TimePoint now) {
  look_at(view, now);
  if (const Row* row = due_row(scene_)) {
    Scene scene = scene_;
    add_words(scene.ranks);
    Verdict verdict = verdict_by(*row, scene);
    return Outcome{record::RunState::kFailed, std::move(verdict.failure), verdict.lost_place};
  }
  if (!view.running && !in_trouble(scene_)) return Outcome{};
  return std::nullopt;
}

void Judge::look_at(const RunView& view, TimePoint now) {
  if (now - last_look_ > kPause) woke_ = now;
  last_look_ = now;
  const auto joined = [](const RankView& rank) { return rank.status.joined; };
  if (!all_joined_ && std::ranges::all_of(view.ranks, joined)) all_joined_ = now;
  scene_.now = now;
  scene_.running = view.running;
  scene_.all_joined = all_joined_.has_value();
  for (size_t rank = 0; rank < view.ranks.size(); ++rank) {
    const net::RankStatus& status = view.ranks[rank].status;
    RankFacts& facts = facts_of(static_cast<int>(rank));
    facts.host = status.host;
    facts.joined = status.joined;
    facts.closed_since = since(status.joined && !status.connected, facts.closed_since, now);
    if (facts.fault.empty()) facts.fault_seen = now;
    facts.fault = status.fault;
    if (!reported_failure(facts)) facts.report_seen = now;
    facts.report = status.report;
    if (status.heartbeat.is_object()) facts.heartbeat = status.heartbeat;
    // Ranks send heartbeats once all have joined. A supervisor that was stopped itself has heard none.
    if (all_joined_) facts.heard_at = std::max({status.last_heartbeat, *all_joined_, woke_});
    if (all_joined_) facts.heartbeat_age_s = to_seconds(now - *facts.heard_at);
    facts.process_state = view.ranks[rank].process_state;
  }
}

void Judge::add_words(std::vector<RankFacts>& ranks) const {
  for (size_t rank = 0; rank < ranks.size() && options_.words_left; ++rank) {
    WordsLeft words = options_.words_left(rank);
    if (!ranks[rank].report) ranks[rank].report = std::move(words.report);
    ranks[rank].log_reason = std::move(words.log_reason);
  }
}

bool Judge::had_ended_work(size_t rank) {
  work_ended_.resize(scene_.ranks.size());
  if (!work_ended_[rank]) work_ended_[rank] = options_.work_ended(rank);
  return *work_ended_[rank];
}

}  // namespace mlbench::supervise
