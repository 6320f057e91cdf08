#pragma once

// The timelines of all ranks of a run on the supervisor's clock, without layers, which only the trace shows: what fills
// the time of each training thread, and the operations of communication.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/record/spool.h"
#include "mlbench/record/timeline.h"
#include "mlbench/report/timeline/clock_alignment.h"

namespace mlbench::report {

// What the training thread is at: the phases of a step as kStepKindNames counts them, then what lies between steps.
enum Activity : uint8_t {
  kBatchLoadActivity = static_cast<uint8_t>(record::StepKind::kBatchLoad),
  kBackwardActivity = static_cast<uint8_t>(record::StepKind::kBackward),
  kAggregateActivity = static_cast<uint8_t>(record::StepKind::kAggregate),
  kCheckpointActivity = static_cast<uint8_t>(record::StepKind::kCheckpoint),
  kEvaluationActivity = record::kStepKinds,
  kPrepareActivity,
  kProgramActivity,  // between the operations of a run that has no steps, such as a benchmark of collectives
  kUnattributedActivity,
  kActivities
};
std::string_view activity_name(Activity activity);  // "batch_load", ..., "unattributed"
// What the activity is counted as: input, compute, exchange, evaluation, checkpoint, prepare, unattributed.
std::string_view activity_group(Activity activity);

// Between two moments of the supervisor's clock the training thread was at this, or waited within an operation.
struct Stretch {
  int64_t begin_ns = 0, end_ns = 0;
  Activity activity = kUnattributedActivity;
  int64_t operation = -1;  // index in RankPart::operations: exposed communication; -1: the activity's own time
};

enum class TimelineVerdict : uint8_t { kTransfer, kSkew, kMixed, kInconclusive };
std::string_view verdict_name(TimelineVerdict verdict);

struct TimelineOperation {
  uint32_t name = 0;  // index in TimelineRun::names
  record::SpanThread thread = record::SpanThread::kTraining;
  bool nests = true;  // within what its thread does; false: asynchronous, or on a thread of its own
  int64_t begin_ns = 0, end_ns = 0;
  int64_t bound_ns = 0;  // of the clock, at the beginning
  int64_t step = -1, sequence = 0, root_peer = -1;
  uint64_t bytes = 0;

  // As match_operations() finds it. The rank waits until `ready_ns` for `late_rank` (-1: for nobody).
  bool matched = false;
  int64_t ready_ns = 0;
  int64_t late_rank = -1;
  int64_t start_until_ns = 0;  // until then because that rank started later
  TimelineVerdict verdict = TimelineVerdict::kInconclusive;
  // The parts for which the training thread had nothing else to do.
  int64_t exposed_wait_ns = 0, exposed_transfer_ns = 0;
};

// One rank's segment.
struct RankPart {
  int64_t segment = 1, rank = 0;
  record::SpoolHeader header;
  ClockAlignment clock;
  int64_t shift_ns = 0;  // of a rank whose clock is not known: its first span begins with the segment
  int64_t left_out = 0;
  bool has_steps = false;
  int64_t first_ns = 0, last_ns = 0;  // first begin and last end of all spans
  int64_t begin_ns = 0, end_ns = 0;   // of what is accounted for: from the first step (operation) to the end
  std::vector<TimelineOperation> operations = {};  // by their beginning
  std::vector<Stretch> stretches = {};             // without gaps from first_ns to last_ns; empty: there are no spans
  int64_t hidden_ns = 0;                           // of operations, beside computation

  AlignedMoment at(int64_t rank_ns) const;
};

struct TimelineRun {
  std::filesystem::path run_dir = {};
  record::Record record = {};
  int64_t workers = 0, segments = 0;
  std::vector<std::string> names = {};            // of operations
  std::vector<std::vector<RankPart>> parts = {};  // by segment from the first, and rank
  std::vector<int64_t> origin_ns = {};  // of each segment on the trace's axis, which begins with the first one
  std::vector<int64_t> zero_ns = {};    // the moment of the supervisor's clock that lies there
  bool any() const;                     // span at all
};

// Whether a run's folder has a timeline.
bool has_timeline(const std::filesystem::path& run_dir);

// Reads the timelines of all ranks once. UserError, which says what to type, when the run has none, or a file is
// damaged.
TimelineRun read_timeline_run(const std::filesystem::path& run_dir, const record::Record& record);

}  // namespace mlbench::report
