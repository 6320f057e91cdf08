#pragma once

// What a rank records, and how it lies on disk. Each rank appends to two files of its own in RUN/spool/:
//   rank-R.seg-S.steps   header, then StepRecords: time and samples, nothing else
//   rank-R.seg-S.events  JSON lines: everything that is rare (events.h)
// A reader ignores an incomplete last record or line: a killed rank loses at most what was being written.
// Clocks re-derive exactly: they are sums of integers (nanoseconds) over StepRecords.

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

// What a moment of a training step is spent on; names as MLBench's tracker, `checkpoint` ours. Every nanosecond of the
// train clock belongs to exactly one kind.
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

// Steps merged into one record, at most: a writer may take fewer.
inline constexpr size_t kMostMergedSteps = 32;

// One step, or consecutive steps of one epoch under 5 ms (track/recorder.h). A merged record closes at every event
// (evaluation, checkpoint, epoch end). How a column of several steps becomes one value stands beside it; on disk each
// is a cell of 8 bytes by the name in docs/record.md (step_format.h).
struct StepRecord {
  uint64_t sequence = 0;    // of this file, from 0
  uint64_t first_step = 0;  // global step number of the first step, from 0
  uint64_t count = 0;       // steps merged
  uint64_t epoch = 0;       // from 0; the same for all
  uint64_t samples = 0;     // of this rank; sum
  double loss_sum = 0;      // over this rank's samples of the training loss; sum
  double lr = 0;            // last
  int64_t end_ns = 0;       // monotonic, since the segment's start on this rank, end of the step; last
  uint64_t bytes = 0;       // handed to collectives by this rank; sum
  std::array<int64_t, kStepKinds> kinds_ns{};  // sums: every nanosecond from batch request to batch request
  // Of each of the `count` steps: the time within its operations of communication, and the part of it that ran while
  // the gradient was being computed. The rest is exposed: the step waited for it.
  std::array<int64_t, kMostMergedSteps> exchange_ns{};
  std::array<int64_t, kMostMergedSteps> hidden_ns{};

  int64_t total_ns() const { return std::accumulate(kinds_ns.begin(), kinds_ns.end(), int64_t{0}); }
};

struct SpoolHeader {
  uint64_t run_id = 0;
  uint32_t segment = 0;  // from 1
  uint32_t rank = 0;
  int64_t start_wall_us = 0;  // Unix epoch, microseconds: when the segment started on this rank
  std::string identity = {};  // of the run (spec::RunSpec)
};

// UserError, naming `path` and the run, when a header is of another run than the folder that the file is in says in its
// spec.json: its measurements are somebody else's.
void check_identity(const std::filesystem::path& run_dir, const std::filesystem::path& path, const SpoolHeader& header);

// The last segment in which any rank wrote, of the first 1000; 0: none did. One before it may have no files: its ranks
// could not start.
int64_t last_segment(const std::filesystem::path& run_dir);

// Of all whole numbers in a spool and their sums: sums and differences of a few do not overflow.
inline constexpr int64_t kMostInteger = 100'000'000'000'000'000;

// Whether these are times and counts that a run can have: sums of a few stay far from overflow.
bool is_plausible(const StepRecord& record);

// The rare events of one rank's segment, in order; none without a file.
struct Events {
  std::vector<Json> lines;
  int64_t left_out = 0;  // lines that are no events, or behind the first 300,000
};
Events read_events(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);

struct RankSpool {
  SpoolHeader header;
  std::vector<StepRecord> steps;
  std::vector<Json> events;
  int64_t left_out = 0;  // of the events
};
// All complete records; UserError when the file is no spool, damaged or of another version; absent files give empty
// lists.
RankSpool read_spool(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);

}  // namespace mlbench::record
