#pragma once

// Decides when a run is over: a table of observations, and of the patience with each. culprit.h decides which rank is
// named. Its functions are pure: what was seen and the time are passed in; judge.h remembers and asks.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/exec/observation.h"
#include "mlbench/record/build_record.h"
#include "mlbench/supervise/culprit.h"

namespace mlbench::supervise {

struct HeardWord {
  exec::EngineWord word;
  TimePoint when;
  int64_t order = 0;  // place among all observations
};

// What is known of a run at one moment.
struct Scene {
  std::vector<RankFacts> ranks;
  std::vector<HeardWord> engine = {};
  bool running = true;     // whether any rank runs
  bool own_worker = true;  // false: commands of others, without rendezvous and heartbeat
  TimePoint now, begin;    // `begin`: when the ranks were started
  bool all_joined = false;
  Nanoseconds comm_timeout{0}, start_timeout{0}, verdict_time{0};
  // Returns whether a rank that ended with code 0 had finished its work.
  std::function<bool(size_t rank)> work_ended = nullptr;
};

// How long to wait after an observation: `time` plus what the run or its engine sets.
struct Patience {
  std::chrono::seconds time{0};
  Nanoseconds Scene::*with = nullptr;
};
Nanoseconds patience_in(const Scene& scene, const Patience& patience);

struct Verdict {
  record::Failure failure;
  // Ranks lost their place, through an engine or since their host is out of reach. They could go on elsewhere, or
  // later.
  bool lost_place = false;
};

enum class Use {
  kDecides,   // ends the run once the patience is over or no rank runs; `verdict` says why
  kTroubles,  // the same, unless a kHolds row holds back; the weights of culprit.h name the rank
  kHolds,     // holds back while the patience lasts and ranks run, up to 15 s after the first trouble
};

struct Row {
  std::string_view seen;
  Use use;
  Patience patience;
  std::optional<TimePoint> (*since)(const Scene& scene);  // since when it is seen; empty: it is not
  Verdict (*verdict)(const Scene& scene) = nullptr;       // for kDecides
  bool though_none_runs = false;                          // for kHolds: holds back even when no rank runs
};
// The rows, heaviest first. Of the engine's facts, only the heaviest counts.
std::span<const Row> table();

// The row by which the run has failed; null: it has not failed so far.
const Row* due_row(const Scene& scene);
// Whether a rank failed or reported a failure: then the run has not finished, even when no rank runs.
bool in_trouble(const Scene& scene);

Verdict verdict_by(const Row& row, const Scene& scene);

}  // namespace mlbench::supervise
