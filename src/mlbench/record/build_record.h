#pragma once

// The record of a run's folder: frozen choices + what the spools say + how it ended.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/clocks.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::record {

// What the supervisor knows, beside spec and spools.
struct RunProgress {
  RunState state = RunState::kQueued;
  std::string started_at, finished_at;
  std::vector<Segment> segments;  // without what rank 0's spool says
  std::optional<Failure> failure;
  Json placement = nullptr;   // of the record: where each rank runs; null before any start
  Json allocation = nullptr;  // of the record: what an engine gave for the last segment
  Json hosts = Json::array();
  Json environment = Json::object();
  std::vector<std::string> notes;
  double queue_s = 0;           // before launch: for cores and in the queue of an engine, sum over segments
  double wall_s = 0;            // launch to end, sum over segments
  bool oversubscribed = false;  // started with --no-wait beside another run; the record says spec's or this
  Json utilisation = nullptr;   // of the record: {"cpu": used share of the ranks' cores | null, "gpu": null}
};

// Pure: builds the complete record (all but `others`) from the frozen spec, the progress and all spools of the run's
// folder. Works at any time during a run, and after any crash: what is not known is empty, a spool that cannot be read
// becomes a note.
//
// - clocks, steps_s: rank 0's step records, summed over all segments: steps that a resumed run did again count twice.
// - evaluations, epochs: where a step (epoch) exists in two segments, the later segment's. Their train_s and wall_s
//   count the earlier segments' whole clocks; wall_s starts at the launch of each segment. elapsed_s: curve.h.
// - goal: value, epoch, step and train_s of the moment when it was reached; else of the best value so far, or null.
//   Where it was reached, steps_s and exchange are those of the record up to then.
//   `best` is the best value of the whole run, reached or not, at a limit or not. A throughput run has no goal (null).
// - stop_reason: why rank 0 ended in the last segment; null while it runs, and where something else ended it.
// - throughput.samples_per_s: samples of all ranks / train clock.
// - throughput.median_samples_per_s: each record of rank 0 gives its samples * workers / its time, with its number of
//   steps as weight; the least rate at which the weights up to it make half of the sum (the mean with the next one
//   where they make exactly half).
// - throughput.peak_rss: bytes, of the largest rank.
// - exit_codes: of the last segment's ranks; null as a whole before any rank was started.
Record build_record(const spec::RunSpec& spec, const RunProgress& progress);

}  // namespace mlbench::record
