#include "mlbench/supervise/table.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "mlbench/base/input.h"

namespace mlbench::supervise {
namespace {

using exec::EngineFact;
using std::chrono::seconds;
using Since = std::optional<TimePoint>;

constexpr seconds kMostHeld{15};
// Ranks themselves notice failures of their peers before the supervisor acts.
constexpr Patience kCommTimeout{seconds(3), &Scene::comm_timeout};

// The first, or last, of the times that `seen` gives for the ranks.
template <typename Seen>
Since first(const Scene& scene, Seen seen) {
  Since first;
  for (const RankFacts& rank : scene.ranks) {
    const Since one = seen(rank);
    if (one && (!first || *one < *first)) first = one;
  }
  return first;
}
template <typename Seen>
Since last(const Scene& scene, Seen seen) {
  Since last;
  for (const RankFacts& rank : scene.ranks) last = std::max(last, Since(seen(rank)));
  return last;
}
Since when(bool is_so, TimePoint time) { return is_so ? Since(time) : std::nullopt; }

// ---- what ranks do

Since an_error(const Scene& scene) {
  return first(scene, [](const RankFacts& rank) { return when(rank.exit && failed(*rank.exit), rank.exit_seen); });
}
Since a_report(const Scene& scene) {
  return first(
      scene, [&](const RankFacts& rank) { return when(scene.own_worker && reported_failure(rank), rank.report_seen); });
}
Since a_fault(const Scene& scene) {
  return first(scene,
               [&](const RankFacts& rank) { return when(scene.own_worker && !rank.fault.empty(), rank.fault_seen); });
}
Since a_dying_rank(const Scene& scene) {
  return last(scene,
              [&](const RankFacts& rank) { return scene.own_worker && !rank.exit ? rank.closed_since : std::nullopt; });
}
Since a_silent_host(const Scene& scene) {
  return last(scene, [](const RankFacts& rank) { return rank.exit ? std::nullopt : rank.silent_since; });
}
Since a_host_that_is_back(const Scene& scene) {
  return last(scene, [](const RankFacts& rank) { return rank.back_at; });
}
Since a_termination(const Scene& scene) {
  return first(scene, [](const RankFacts& rank) {
    return when(rank.exit && !rank.exit->lost && rank.exit->end.signal == SIGTERM, rank.exit_seen);
  });
}

// ---- what the engine says

bool waits_for_verdict(const Scene& scene) {
  const Since termination = a_termination(scene);
  return termination && scene.now - *termination < scene.verdict_time;
}

// Once no rank runs, words of the engine count only where the table asks for them.
bool counts(const Scene& scene, const HeardWord& one) {
  return scene.running || one.word.fact == EngineFact::kLauncherKilled || waits_for_verdict(scene);
}

const HeardWord* heaviest(const Scene& scene) {
  const HeardWord* heaviest = nullptr;
  for (const HeardWord& one : scene.engine) {
    if (counts(scene, one) && (heaviest == nullptr || one.word.fact < heaviest->word.fact)) heaviest = &one;
  }
  return heaviest;
}

template <EngineFact fact>
Since said(const Scene& scene) {
  const HeardWord* word = heaviest(scene);
  return word != nullptr && word->word.fact == fact ? Since(word->when) : std::nullopt;
}

// Silent or lost links tell more within seconds, since they show which ranks are on the lost host.
bool links_tell(const Scene& scene) {
  const auto lost = [](const RankFacts& rank) { return rank.exit && rank.exit->lost; };
  return a_silent_host(scene) || std::ranges::any_of(scene.ranks, lost);
}

Since a_host_gone(const Scene& scene) { return links_tell(scene) ? std::nullopt : said<EngineFact::kHostGone>(scene); }

// The guard tells of a rank's own end, in more words; the job then deletes the other ranks.
Since a_rank_ended(const Scene& scene) {
  const auto told = [&](const HeardWord& one) {
    const auto rank = static_cast<size_t>(one.word.rank);
    if (one.word.fact != EngineFact::kRankEnded || one.word.rank < 0 || rank >= scene.ranks.size()) return false;
    return scene.ranks[rank].exit && !scene.ranks[rank].exit->lost;
  };
  return std::ranges::any_of(scene.engine, told) ? std::nullopt : said<EngineFact::kRankEnded>(scene);
}

Since a_job_over(const Scene& scene) { return scene.running ? said<EngineFact::kJobOver>(scene) : std::nullopt; }

// Since when a program beside the ranks has ended. Empty where a rank failed before it or, where the program ended by
// itself, at any time.
template <EngineFact fact>
Since beside(const Scene& scene) {
  const Since end = said<fact>(scene);
  if (!end || !scene.running || links_tell(scene)) return std::nullopt;
  const bool outweighed = std::ranges::any_of(scene.ranks, [&](const RankFacts& rank) {
    if (!rank.exit || !failed(*rank.exit)) return false;
    return fact == EngineFact::kBesideEnded || rank.exit_order < heaviest(scene)->order;
  });
  return outweighed ? std::nullopt : end;
}

Verdict in_its_words(const Scene& scene) {
  constexpr int kSignals = 128;  // exit codes above it stand for signals
  const exec::EngineWord& word = heaviest(scene)->word;
  const bool by_itself = word.fact == EngineFact::kRankEnded && word.code && *word.code <= kSignals;
  const char* kind = word.rank < 0                        ? "start_failed"
                     : word.fact == EngineFact::kHostGone ? "host_lost"
                     : by_itself                          ? "rank_error"
                                                          : "rank_died";
  return {failure_at(scene.ranks, word.rank, kind, word.words), word.place_lost};
}

// ---- what ranks do not do

std::vector<size_t> not_come(const Scene& scene) {
  std::vector<size_t> missing;
  for (size_t rank = 0; rank < scene.ranks.size(); ++rank) {
    if (!scene.ranks[rank].joined) missing.push_back(rank);
  }
  return missing;
}

bool may_be_missed(const Scene& scene) { return scene.own_worker && !scene.all_joined && !in_trouble(scene); }

Since ends_of_all_missing(const Scene& scene) {
  const auto over = [](const RankFacts& rank) { return rank.joined || rank.exit; };
  return when(may_be_missed(scene) && std::ranges::all_of(scene.ranks, over), scene.begin);
}
Since missing(const Scene& scene) { return when(may_be_missed(scene), scene.begin); }

Verdict ended_without_joining(const Scene& scene) {
  return {not_joined(scene.ranks, not_come(scene), "ended without joining the rendezvous")};
}
Verdict did_not_join(const Scene& scene) {
  const auto limit = std::chrono::duration_cast<seconds>(scene.start_timeout).count();
  return {not_joined(scene.ranks, not_come(scene), fmt::format("did not join the rendezvous within {} s", limit))};
}

// Whether work was done is not asked for ranks whose patience is not over.
std::optional<size_t> who_left_early(const Scene& scene) {
  if (!scene.own_worker || !scene.all_joined || in_trouble(scene)) return std::nullopt;
  for (size_t rank = 0; rank < scene.ranks.size(); ++rank) {
    const RankFacts& one = scene.ranks[rank];
    if (!one.exit || (scene.running && scene.now - one.exit_seen < patience_in(scene, kCommTimeout))) continue;
    if (!scene.work_ended(rank)) return rank;
  }
  return std::nullopt;
}
Since an_early_end(const Scene& scene) {
  const auto rank = who_left_early(scene);
  return rank ? Since(scene.ranks[*rank].exit_seen) : std::nullopt;
}
Verdict left_early(const Scene& scene) {
  const size_t rank = who_left_early(scene).value();
  const RankFacts& one = scene.ranks[rank];
  record::Failure failure;
  failure.kind = "rank_error";
  failure.rank = static_cast<int64_t>(rank);
  failure.host = one.host;
  failure.operation = text_member(one.heartbeat, "operation");
  failure.sequence = integer_of(one.heartbeat.value("sequence", Json())).value_or(-1);
  failure.message = fmt::format("rank {} on {} ended with exit code 0 before its work was done", rank, one.host);
  return {std::move(failure)};
}

Since no_heartbeat(const Scene& scene) {
  if (!scene.own_worker || !scene.all_joined || in_trouble(scene)) return std::nullopt;
  // Just after the last heartbeat.
  return first(scene, [](const RankFacts& rank) {
    return rank.exit || !rank.heard_at ? std::nullopt : std::optional(*rank.heard_at + Nanoseconds(1));
  });
}

constexpr Row kTable[] = {
    {"a signal killed what started all ranks", Use::kDecides, {}, said<EngineFact::kLauncherKilled>, in_its_words},
    {"the engine, or somebody, took the job", Use::kDecides, {}, said<EngineFact::kJobTaken>, in_its_words},
    {"the engine took a rank's place or memory", Use::kDecides, {}, said<EngineFact::kRankTaken>, in_its_words},
    {"the engine says that a host is gone, no link is silent", Use::kDecides, {}, a_host_gone, in_its_words},
    {"the engine says that a rank ended, its guard nothing", Use::kDecides, {}, a_rank_ended, in_its_words},
    {"a rank was deleted", Use::kDecides, {}, said<EngineFact::kRankDeleted>, in_its_words},
    {"the job ended under its ranks", Use::kDecides, {}, a_job_over, in_its_words},
    {"a signal killed Open MPI, no rank failed", Use::kDecides, {}, beside<EngineFact::kBesideKilled>, in_its_words},
    // A failing rank may have told it to end (MPI_Abort): the rank's own end is then seen within this time.
    {"Open MPI ended", Use::kDecides, {seconds(3)}, beside<EngineFact::kBesideEnded>, in_its_words},

    // The true cause has this time to show beside its effects on others.
    {"a rank ended with an error, by a signal or out of sight", Use::kTroubles, {seconds(1)}, an_error},
    {"a rank reports a failure", Use::kTroubles, {seconds(1)}, a_report},
    {"a rank says what none may say", Use::kTroubles, {seconds(1)}, a_fault},
    // A core dump takes a while.
    {"a rank closed its connection and has not ended", Use::kHolds, {seconds(5)}, a_dying_rank},
    // The link to a silent host is given up after 10 s.
    {"a rank's host is silent", Use::kHolds, {seconds(12)}, a_silent_host},
    {"a silent host is back", Use::kHolds, {seconds(1)}, a_host_that_is_back},
    // Engines send SIGTERM, and say so even when no rank runs any more.
    {"a rank ended of SIGTERM", Use::kHolds, {{}, &Scene::verdict_time}, a_termination, nullptr, true},

    {"all that have not joined have ended", Use::kDecides, {}, ends_of_all_missing, ended_without_joining},
    {"a rank has not joined", Use::kDecides, {{}, &Scene::start_timeout}, missing, did_not_join},
    {"a rank ended with code 0 before its work was done", Use::kDecides, kCommTimeout, an_early_end, left_early},
    {"a rank sends no heartbeat", Use::kTroubles, kCommTimeout, no_heartbeat},
};

}  // namespace

std::span<const Row> table() { return kTable; }

bool in_trouble(const Scene& scene) { return an_error(scene) || a_report(scene) || a_fault(scene); }

Nanoseconds patience_in(const Scene& scene, const Patience& patience) {
  return patience.time + (patience.with == nullptr ? Nanoseconds(0) : scene.*patience.with);
}

const Row* due_row(const Scene& scene) {
  const Row* trouble = nullptr;
  TimePoint begin = scene.now;
  bool held = false, held_though_none_runs = false;
  for (const Row& row : kTable) {
    const Since since = row.since(scene);
    if (!since) continue;
    const bool over = scene.now - *since >= patience_in(scene, row.patience);
    if (row.use == Use::kHolds) {
      held = held || !over;
      held_though_none_runs = held_though_none_runs || (row.though_none_runs && !over);
    } else if (row.use == Use::kTroubles) {
      begin = std::min(begin, *since);
      if (trouble == nullptr && (over || !scene.running)) trouble = &row;
    } else if (over || !scene.running) {
      return &row;
    }
  }
  if (scene.running ? held && scene.now - begin < kMostHeld : held_though_none_runs) return nullptr;
  return trouble;
}

Verdict verdict_by(const Row& row, const Scene& scene) {
  if (row.use == Use::kDecides) return row.verdict(scene);
  record::Failure failure = name_culprit(scene.ranks, scene.own_worker);
  const bool host_lost = failure.kind == "host_lost";
  return {std::move(failure), host_lost};
}

}  // namespace mlbench::supervise
