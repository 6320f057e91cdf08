#pragma once

// How long a rank's communication took: an observer that measures the time within operations.

#include <cstdint>
#include <mutex>

#include "mlbench/base/clock.h"
#include "mlbench/comm/operation_board.h"

namespace mlbench::comm {

// Attached from its construction to its destruction, both of which must fall between operations. The board and the
// clock must outlive it. Another thread than that of the operations may call take().
class OperationClock final : public OperationObserver {
 public:
  OperationClock(OperationBoard& board, const Clock& clock);
  ~OperationClock() override;
  OperationClock(const OperationClock&) = delete;
  OperationClock& operator=(const OperationClock&) = delete;

  // The nanoseconds since the last call in which at least one operation was under way; overlapping operations count
  // once.
  int64_t take();

 private:
  void begin(const Operation& operation) noexcept override;
  void end(const Operation& operation) noexcept override;

  OperationBoard& board_;
  const Clock& clock_;
  std::mutex mutex_;
  int in_flight_ = 0;
  TimePoint since_{};
  int64_t busy_ns_ = 0;
};

}  // namespace mlbench::comm
