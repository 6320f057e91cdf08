#pragma once

// The operations of a communicator in the rank's timeline: an observer, no transport.

#include <cstdint>
#include <mutex>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/comm/operation_board.h"
#include "mlbench/track/timeline_recorder.h"

namespace mlbench::comm {

// From its making to its end, which the board and the timeline outlive; both between operations. An operation's span
// goes from its call to its return, that of an asynchronous one to the end of its Work.
class OperationSpans final : public OperationObserver {
 public:
  OperationSpans(OperationBoard& board, track::TimelineRecorder& timeline);
  ~OperationSpans() override;
  OperationSpans(const OperationSpans&) = delete;
  OperationSpans& operator=(const OperationSpans&) = delete;

 private:
  struct Open {
    int64_t sequence;
    TimePoint begin;
  };
  void begin(const Operation& operation) noexcept override;
  void end(const Operation& operation) noexcept override;

  OperationBoard& board_;
  track::TimelineRecorder& timeline_;
  std::mutex mutex_;
  std::vector<Open> open_;
};

}  // namespace mlbench::comm
