#pragma once

// Builds the record of a run's folder from the frozen choices, from what the spools say, and from how the run ended.

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

// What the supervisor knows beside spec and spools.
struct RunProgress {
  RunState state = RunState::kQueued;
  std::string started_at, finished_at;
  std::vector<Segment> segments;  // without what rank 0's spool says
  std::optional<Failure> failure;
  Json placement = nullptr;   // the record's: where each rank runs; null before any start
  Json allocation = nullptr;  // the record's: what an engine gave for the last segment
  Json hosts = Json::array();
  Json environment = Json::object();
  std::vector<std::string> notes;
  double queue_s = 0;           // waiting for cores and in an engine's queue, summed over segments
  double wall_s = 0;            // from launch to end, summed over segments
  bool oversubscribed = false;  // started with --no-wait beside another run; the record has the spec's or this
  Json energy = nullptr;        // the record's; null before ranks worked
  Json utilisation = nullptr;   // the record's: {"cpu": used share of the ranks' cores | null, "gpu": null}
};

// Builds the complete record (except `others`) from the frozen spec, the progress and all spools of the run's folder.
// This is a pure function, which works at any time during a run and after any crash: what is not known is empty, and a
// spool that cannot be read becomes a note.
//
// - clocks, steps_s: rank 0's step records, summed over all segments. Steps that a resumed run repeated count twice.
// - waited_for_data_s: `batch_load` of each rank, summed in the same way.
// - evaluations, epochs: where a step (or epoch) is in two segments, the later segment counts. Their train_s and wall_s
//   include the whole clocks of earlier segments; wall_s starts at the launch of each segment. elapsed_s: see curve.h.
// - goal: value, epoch, step and train_s of the moment when the goal was reached; else of the best value so far, or
//   null. Where it was reached, steps_s and exchange are the record's up to that moment. `best` is the best value of
//   the whole run, whether or not the goal was reached, also at a limit. A throughput run has no goal (null).
// - stop_reason: why rank 0 ended in the last segment; null while it runs, and where something else ended it.
// - throughput.samples_per_s: the samples of all ranks over the train clock.
// - throughput.median_samples_per_s: each record of rank 0 gives its samples * workers / its time, with its number of
//   steps as weight. The median is the least rate at which the weights up to it make half of the sum (where they make
//   exactly half, the mean with the next rate).
// - throughput.peak_rss: bytes, of the largest rank.
// - exit_codes: those of the last segment's ranks; null as a whole before any rank was started.
Record build_record(const spec::RunSpec& spec, const RunProgress& progress);

}  // namespace mlbench::record
