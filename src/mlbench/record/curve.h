#pragma once

// What happened during a run, as its record has it: evaluations, epochs, bad images, the goal. Times are rank 0's, over
// all segments.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/build_record.h"
#include "mlbench/record/clocks.h"
#include "mlbench/record/record.h"
#include "mlbench/record/spool.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::record {

// Empty for a text that is no stamp.
std::optional<std::chrono::system_clock::time_point> parse_stamp(const std::string& text);

struct SegmentTimes {
  double launch_s = 0;                                    // from the segment's launch to the start of rank 0's clock
  double wall_s = 0;                                      // the segment's whole length, as far as known
  int64_t train_before_ns = 0, evaluation_before_ns = 0;  // sums over the segments before it
  double wall_before_s = 0;
};

std::vector<SegmentTimes> segment_times(const std::vector<RankSpool>& spools, const RunProgress& progress);

// Parts of the record (record.h) from rank 0's spools.
//
// An evaluation's elapsed_s is the time that "accuracy after time" uses (docs/rules.md): the seconds from the first
// batch to the evaluation's end, as clocks.h counts them.
std::vector<Evaluation> evaluations_of(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times);
std::vector<Epoch> epochs_of(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times);
// The goal without its `exchange`. Empty where the run has no goal.
std::optional<Goal> goal_of(const spec::RunSpec& spec, const std::vector<RankSpool>& segments,
                            const std::vector<SegmentTimes>& times, const std::vector<Evaluation>& evaluations,
                            const std::vector<Epoch>& epochs);

// What all ranks met in all segments, where `allowed` images may be impossible to decode. An image counts once.
BadImages bad_images_of(const std::vector<std::vector<RankSpool>>& ranks, int64_t allowed);

// When the goal was reached; empty where it was not.
std::optional<Moment> goal_moment(const std::vector<RankSpool>& segments);

}  // namespace mlbench::record
