#pragma once

// When a run is over for what was seen of it: the table of observations and of the patience with each. Whom that names,
// culprit.h says. Pure: what was seen is handed in, and so is the time; judge.h remembers and asks.

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
  int64_t order = 0;  // among all observations
};

// What is known at one moment.
struct Scene {
  std::vector<RankFacts> ranks;
  std::vector<HeardWord> engine = {};
  bool running = true;     // some rank does
  bool own_worker = true;  // else commands of others: no rendezvous, no heartbeat
  TimePoint now, begin;    // begin: of the ranks
  bool all_joined = false;
  Nanoseconds comm_timeout{0}, start_timeout{0}, verdict_time{0};
  // Whether a rank that ended with code 0 had come to the end of its work.
  std::function<bool(size_t rank)> work_ended = nullptr;
};

// From when something was seen: so many seconds, and what the run or its engine sets.
struct Patience {
  std::chrono::seconds time{0};
  Nanoseconds Scene::*with = nullptr;
};
Nanoseconds patience_in(const Scene& scene, const Patience& patience);

struct Verdict {
  record::Failure failure;
  // The place of ranks is lost, by an engine or as their host is out of reach: they could go on elsewhere, or later.
  bool lost_place = false;
};

enum class Use {
  kDecides,   // once the patience is over, or no rank runs: `verdict` says why
  kTroubles,  // likewise, unless a row holds back: the weights of culprit.h say who
  kHolds,     // as long as the patience lasts and ranks run, 15 s after the first trouble at most
};

struct Row {
  std::string_view seen;
  Use use;
  Patience patience;
  std::optional<TimePoint> (*since)(const Scene& scene);  // empty: it is not seen
  Verdict (*verdict)(const Scene& scene) = nullptr;       // of kDecides
  bool though_none_runs = false;                          // of kHolds
};
// Heaviest first. Of what the engine says, the heaviest fact counts alone.
std::span<const Row> table();

// The row for which the run has failed; null: none so far.
const Row* due_row(const Scene& scene);
// Whether a rank failed, or said so: such a run has not finished, though no rank runs.
bool in_trouble(const Scene& scene);

Verdict verdict_by(const Row& row, const Scene& scene);

}  // namespace mlbench::supervise
