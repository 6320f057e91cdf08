#pragma once

// Puts the operations of a communicator into the rank's timeline. This is an observer, not a transport.

#include <cstdint>
#include <mutex>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/comm/operation_board.h"
#include "mlbench/track/timeline_recorder.h"

namespace mlbench::comm {

// Attached from its construction to its destruction, both of which must fall between operations. The board and the
// timeline must outlive it. The span of an operation goes from its call to its return; that of an asynchronous
// operation goes to the end of its Work.
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
