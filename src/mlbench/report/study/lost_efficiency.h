#pragma once

// Where a worker's time goes, and which of it costs efficiency as workers are added.
//
// A worker takes the time T = w p: w units of work to the end (epochs to the goal, or one sample), of p seconds each. p
// has parts on rank 0. The efficiency of k workers against k1 of the baseline is k1 T1 / (k T): worker-seconds then,
// over worker-seconds now. What is lost is
//
//   1 - k1 T1 / (k T) = [ (w - w1) k1 p1                  more work, such as the steps that a larger batch needs
//                         + w sum_i (k p_i - k1 p1_i) ]   and the growth of each part of the time
//                       / (k T)
//
// exactly, term by term. A term below 0 is a gain. These are pure functions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

enum class TimePart : uint8_t { kCompute, kWaiting, kCommunication, kInput, kOther };
inline constexpr size_t kTimeParts = 5;
std::string_view name_of(TimePart part);     // "compute", "waiting", ...
std::string_view meaning_of(TimePart part);  // what costs efficiency where the part grows, for people

// Seconds by TimePart.
using TimeParts = std::array<double, kTimeParts>;
double total_of(const TimeParts& parts);
TimePart largest_of(const TimeParts& parts);  // of equal ones, the first
double part_of(const TimeParts& parts, TimePart part);

// What workers needed for the same end.
struct WorkerTime {
  int64_t workers = 1;
  double work = 1;         // epochs to the goal; 1 where all did the same work
  TimeParts seconds = {};  // of one worker, for all of the work
  // Whether waiting and communication are exact. Else true waiting is at least, true communication at most this.
  bool exact = true;
};
// The parts of `train_s`, the time to which `sums` belong, on rank 0. Waiting for the slowest rank is apart from
// communication only where the record tells it and no communication is hidden; else it is a part of communication.
// Empty where the sums have no kinds of steps, or without a time. Precondition: workers and work are positive.
std::optional<WorkerTime> worker_time(const TimeSums& sums, double train_s, int64_t workers, double work);

struct LostEfficiency {
  double lost = 0;        // 1 - efficiency
  double more_work = 0;   // the share of `lost` that more work has
  TimeParts shares = {};  // of `lost`, by part; with more_work they sum to 1
  bool exact = true;      // of both times
};
// The loss of `here` against `baseline`. Empty where at most 5 % is lost: shares of nearly nothing say nothing.
// Precondition: workers, work and total seconds of both are positive.
std::optional<LostEfficiency> lost_efficiency(const WorkerTime& baseline, const WorkerTime& here);

// The largest loss in words: "waiting for the slowest rank, 62 % of the lost efficiency".
std::string largest_loss_words(const LostEfficiency& lost);
// {"lost", "exact", "shares": {"more_work", "compute", ...}}.
Json to_json(const LostEfficiency& lost);

}  // namespace mlbench::report
