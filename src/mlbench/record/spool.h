#pragma once

// What a rank records, and how it lies on disk. Each rank appends to two files of its own in RUN/spool/:
//   rank-R.seg-S.steps   header (64 bytes), then fixed-size StepRecords: what each step took
//   rank-R.seg-S.events  JSON lines: everything that is rare (evaluations, epochs, checkpoints, the end)
// A reader ignores an incomplete last record or line: a killed rank loses at most what was being written.
// Clocks re-derive exactly: they are sums of integers (nanoseconds) over StepRecords.

#include <array>
#include <cstdint>
#include <filesystem>
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

struct Spread {  // nanoseconds over the steps of one record
  int64_t sum = 0;
  int64_t min = 0;
  int64_t max = 0;
};

// One step, or up to 25 consecutive steps under 5 ms. A merged record closes at every evaluation, checkpoint and epoch
// end. Little endian, no padding, fixed size; the format's version is in the header.
struct StepRecord {
  uint64_t sequence = 0;    // of this file, from 0
  uint64_t first_step = 0;  // global step number of the first step, from 0
  uint32_t count = 0;       // steps merged
  uint32_t epoch = 0;       // from 0
  uint64_t samples = 0;     // of this rank
  double loss_sum = 0;      // sum over this rank's samples of the training loss
  double lr = 0;            // of the last step
  int64_t end_ns = 0;       // monotonic, since the segment's start on this rank, end of the last step
  uint64_t bytes = 0;       // handed to collectives by this rank
  Spread total;             // whole steps, from batch request to batch request
  std::array<Spread, kStepKinds> kinds;
};
static_assert(sizeof(StepRecord) == 64 + 24 * (1 + kStepKinds));

struct SpoolHeader {
  char magic[8] = {'M', 'L', 'B', 'S', 'T', 'E', 'P', 'S'};
  uint32_t version = 1;
  uint32_t record_bytes = sizeof(StepRecord);
  uint64_t run_id = 0;
  uint32_t segment = 0;  // from 1
  uint32_t rank = 0;
  int64_t start_wall_us = 0;  // Unix epoch, microseconds: when the segment started on this rank
  uint8_t reserved[24] = {};
};
static_assert(sizeof(SpoolHeader) == 64);

// Events: {"event": NAME, "sequence": n, "end_ns": since segment start, "step": steps done, ...}:
//   prepared    {prepare_s, data{}}                      data ready, before the train clock
//   begin       {start_step, parameters, effective{}, versions{}, comm_stack, steps_per_epoch, last_step,
//                samples_before, peak_rss}
//   epoch       {epoch}                                  end of a training epoch;
//               rank 0: {train_ns, train_loss, metrics{}}, over all ranks
//   evaluation  {duration_ns}
//               rank 0: {epoch, samples, split, train_ns, metrics{}}, over all ranks
//   goal        {metric, split, target, value, train_ns, epoch}   rank 0
//   checkpoint  rank 0: {path}
//   operations  {operations[]}                           of a step, as the record has them (--profile, --explain)
//   end         {reason: goal|max_steps|max_epochs|max_time|epochs, weights_sha256, samples, peak_rss}
//               or {reason: stopped|supervisor_lost|comm_timeout}: the rank was ended
//   failure     {kind: comm_timeout|comm_error|disk_full|io_error|rank_error, operation, sequence_number, message};
//               before the rank had joined without "step" and sequence_number
std::filesystem::path steps_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
std::filesystem::path events_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);

// Of all whole numbers in a spool and their sums: sums and differences of a few do not overflow.
inline constexpr int64_t kMostInteger = 100'000'000'000'000'000;

// The first 64 bytes of a file of steps; empty while they are being written or there is none. UserError when this is no
// spool, or one of another version.
std::optional<SpoolHeader> parse_header(const std::filesystem::path& path, std::string_view bytes);

// Whether these are times and counts that a run can have: sums of a few stay far from overflow.
bool is_plausible(const StepRecord& record);

// A line of a file of events: an object within its limits (base/input.h) whose members have the types above. Empty for
// anything else.
std::optional<Json> parse_event(std::string_view line);

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
