#pragma once

// The timelines of all ranks of a run on the supervisor's clock: what fills the time of each training thread, and the
// operations of communication. Layers are left out; only the trace shows them.

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

// What the training thread does: the phases of a step, numbered as in kStepKindNames, then what lies between steps.
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
// The group in which an activity counts: input, compute, exchange, evaluation, checkpoint, prepare, unattributed.
std::string_view activity_group(Activity activity);

// What the training thread did between two moments of the supervisor's clock: an activity, or waiting in an operation.
struct Stretch {
  int64_t begin_ns = 0, end_ns = 0;
  Activity activity = kUnattributedActivity;
  int64_t operation = -1;  // exposed communication: an index in RankPart::operations; -1: the activity itself
};

enum class TimelineVerdict : uint8_t { kTransfer, kSkew, kMixed, kInconclusive };
std::string_view verdict_name(TimelineVerdict verdict);

struct TimelineOperation {
  uint32_t name = 0;  // index in TimelineRun::names
  record::SpanThread thread = record::SpanThread::kTraining;
  bool nests = true;  // blocks the training thread within one activity; false: asynchronous, or on another thread
  int64_t begin_ns = 0, end_ns = 0;
  int64_t bound_ns = 0;  // how exactly begin_ns is known: AlignedMoment::bound_ns
  int64_t step = -1, sequence = 0, root_peer = -1;
  uint64_t bytes = 0;

  // match_operations() fills these in. The rank waits until `ready_ns` for `late_rank` (-1: for nobody).
  bool matched = false;
  int64_t ready_ns = 0;
  int64_t late_rank = -1;
  int64_t start_until_ns = 0;  // the wait until then is because late_rank started later
  TimelineVerdict verdict = TimelineVerdict::kInconclusive;
  // account_for() fills these in: the parts for which the training thread had nothing else to do.
  int64_t exposed_wait_ns = 0, exposed_transfer_ns = 0;
};

// The timeline of one rank in one segment.
struct RankPart {
  int64_t segment = 1, rank = 0;
  record::SpoolHeader header;
  ClockAlignment clock;
  int64_t shift_ns = 0;  // where the clock is not known: added to moments, so that the first span begins the segment
  int64_t left_out = 0;  // entries that were too many to be read
  bool has_steps = false;
  int64_t first_ns = 0, last_ns = 0;  // first begin and last end of all spans
  int64_t begin_ns = 0, end_ns = 0;  // what is accounted for: from the first step (without steps, operation) to the end
  std::vector<TimelineOperation> operations = {};  // by their beginning
  std::vector<Stretch> stretches = {};             // without gaps from first_ns to last_ns; empty: there are no spans
  int64_t hidden_ns = 0;                           // time of operations that ran beside computation

  // The moment at which the rank's clock shows `rank_ns`; with the bound record::kMostInteger where it is not known.
  AlignedMoment at(int64_t rank_ns) const;
};

struct TimelineRun {
  std::filesystem::path run_dir = {};
  record::Record record = {};
  int64_t workers = 0, segments = 0;
  std::vector<std::string> names = {};            // of operations
  std::vector<std::vector<RankPart>> parts = {};  // by segment from the first, and rank
  std::vector<int64_t> origin_ns = {};  // where each segment begins on the trace's axis, which begins with the first
  std::vector<int64_t> zero_ns = {};    // the supervisor's clock at the beginning of each segment
  bool any() const;                     // whether any rank has a span
};

// Whether a run's folder has a timeline.
bool has_timeline(const std::filesystem::path& run_dir);

// Reads the timelines of all ranks once. Throws UserError when the run has no timeline (the message says what to type)
// or none yet, and when a file is damaged.
TimelineRun read_timeline_run(const std::filesystem::path& run_dir, const record::Record& record);

}  // namespace mlbench::report
