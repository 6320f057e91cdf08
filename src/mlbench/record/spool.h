#pragma once

// What a rank records, and how it is stored. Each rank appends to two files of its own in RUN/spool/:
//   rank-R.seg-S.steps   header, then StepRecords: time and samples, nothing else
//   rank-R.seg-S.events  JSON lines: everything that is rare (events.h)
// A reader ignores an incomplete last record or line: a killed rank loses at most what was being written. Clocks can be
// computed again exactly: they are sums of integers (nanoseconds) over StepRecords.

#include <array>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::record {

// What a moment of a training step is spent on. The names are those of MLBench's tracker; `checkpoint` is ours. Every
// nanosecond of the train clock belongs to exactly one kind.
enum class StepKind : uint8_t {
  kBatchLoad,
  kInit,
  kForward,
  kLoss,
  kBackward,
  kAggregate,
  kOptimizer,
  kMetrics,
  kCheckpoint
};
inline constexpr size_t kStepKinds = 9;
inline constexpr std::array<std::string_view, kStepKinds> kStepKindNames = {
    "batch_load", "init", "fwd_pass", "comp_loss", "backprop", "agg", "opt_step", "comp_metrics", "checkpoint"};

// The most steps that are merged into one record; a writer may merge fewer.
inline constexpr size_t kMostMergedSteps = 32;

// One step, or consecutive steps of one epoch under 5 ms each (track/recorder.h). A merged record ends at every event
// (evaluation, checkpoint, end of epoch). Each comment says how the values of several steps become one. On disk each
// member is a cell of 8 bytes, with its name in docs/record.md (step_format.h).
struct StepRecord {
  uint64_t sequence = 0;    // in this file, from 0
  uint64_t first_step = 0;  // global step number of the first step, from 0
  uint64_t count = 0;       // number of merged steps
  uint64_t epoch = 0;       // from 0; the same for all steps
  uint64_t samples = 0;     // of this rank; summed
  double loss_sum = 0;      // the training loss over this rank's samples; summed
  double lr = 0;            // of the last step
  int64_t end_ns = 0;       // end of the last step: monotonic, since the segment's start on this rank
  uint64_t bytes = 0;       // that this rank gave to collectives; summed
  std::array<int64_t, kStepKinds> kinds_ns{};  // summed: every nanosecond from batch request to batch request
  // For each of the `count` steps: the time within its operations of communication, and the part of that time in which
  // the gradient was being computed. The rest is exposed: the step waited for it.
  std::array<int64_t, kMostMergedSteps> exchange_ns{};
  std::array<int64_t, kMostMergedSteps> hidden_ns{};

  int64_t total_ns() const { return std::accumulate(kinds_ns.begin(), kinds_ns.end(), int64_t{0}); }
};

struct SpoolHeader {
  uint64_t run_id = 0;
  uint32_t segment = 0;  // counts from 1
  uint32_t rank = 0;
  int64_t start_wall_us = 0;  // Unix epoch, microseconds: when the segment started on this rank
  std::string identity = {};  // the run's (spec::RunSpec)
};

// Throws UserError, naming `path` and the run, when a header's run differs from the one in the folder's spec.json: the
// measurements are those of another run.
void check_identity(const std::filesystem::path& run_dir, const std::filesystem::path& path, const SpoolHeader& header);

// The last segment, of the first 1000, in which any rank wrote; 0: there is none. An earlier segment may have no files:
// its ranks could not start.
int64_t last_segment(const std::filesystem::path& run_dir);

// The largest absolute value of any whole number in a spool, and of their sums: a few of them are added without
// overflow.
inline constexpr int64_t kMostInteger = 100'000'000'000'000'000;

// Whether these are times and counts that a run can have; sums of a few of them then do not overflow.
bool is_plausible(const StepRecord& record);

// The rare events of one rank's segment, in order; empty without a file.
struct Events {
  std::vector<Json> lines;
  int64_t left_out = 0;  // lines that are no events, or come after the first 300,000
};
Events read_events(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);

struct RankSpool {
  SpoolHeader header;
  std::vector<StepRecord> steps;
  std::vector<Json> events;
  int64_t left_out = 0;  // how many events
};
// Reads all complete records; none without files. Throws UserError when a file is no spool, damaged, or of another
// version.
RankSpool read_spool(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);

}  // namespace mlbench::record
