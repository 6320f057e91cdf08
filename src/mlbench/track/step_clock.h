#pragma once

// Measures where the time of training goes.

#include <array>
#include <cstdint>
#include <string_view>

#include "mlbench/base/clock.h"
#include "mlbench/record/spool.h"
#include "mlbench/track/timeline_recorder.h"

namespace mlbench::track {

// Attributes every moment of the train clock to one step kind. Only the training thread may use it.
//   skip(kPrepare); for each step: work; lap(kBatchLoad); work; lap(kForward); ... ; take() returns the step's sums
// The time between the last lap() and a skip(), such as an evaluation, belongs to no kind. Laps and skipped times go to
// the timeline, where there is one.
class StepClock {
 public:
  explicit StepClock(const Clock& clock, TimelineRecorder* timeline = nullptr)
      : clock_(clock), timeline_(timeline), last_(clock.now()) {}
  // `as` and `name` say what the skipped time was spent on.
  void skip(record::SpanKind as, std::string_view name) {
    const TimePoint now = clock_.now();
    if (timeline_ != nullptr) timeline_->span(as, name, last_, now);
    last_ = now;
  }
  void lap(record::StepKind kind) {
    const TimePoint now = clock_.now();
    kinds_[static_cast<size_t>(kind)] += (now - last_).count();
    if (timeline_ != nullptr) {
      const auto as = kind == record::StepKind::kCheckpoint ? record::SpanKind::kCheckpoint : record::SpanKind::kPhase;
      timeline_->span(as, record::kStepKindNames[static_cast<size_t>(kind)], last_, now);
    }
    last_ = now;
  }
  // Books `ns` of the present step's time under another kind than that of its lap.
  void move(record::StepKind from, record::StepKind to, int64_t ns) {
    kinds_[static_cast<size_t>(from)] -= ns;
    kinds_[static_cast<size_t>(to)] += ns;
  }
  // Returns the sums since the last call, and sets them to zero.
  std::array<int64_t, record::kStepKinds> take() {
    auto kinds = kinds_;
    for (const int64_t ns : kinds) total_ns_ += ns;
    kinds_ = {};
    return kinds;
  }
  int64_t train_ns() const { return total_ns_; }  // what take() has returned so far

 private:
  const Clock& clock_;
  TimelineRecorder* const timeline_;
  TimePoint last_;
  std::array<int64_t, record::kStepKinds> kinds_{};
  int64_t total_ns_ = 0;
};

}  // namespace mlbench::track
