#include "mlbench/comm/operation_clock.h"

#include <utility>

namespace mlbench::comm {

OperationClock::OperationClock(OperationBoard& board, const Clock& clock) : board_(board), clock_(clock) {
  board_.attach(*this);
}

OperationClock::~OperationClock() { board_.detach(*this); }

int64_t OperationClock::take() {
  const std::lock_guard lock(mutex_);
  if (in_flight_ > 0) {
    const TimePoint now = clock_.now();
    busy_ns_ += (now - std::exchange(since_, now)).count();
  }
  return std::exchange(busy_ns_, 0);
}

void OperationClock::begin(const Operation& /*operation*/) noexcept {
  const std::lock_guard lock(mutex_);
  if (in_flight_++ == 0) since_ = clock_.now();
}

void OperationClock::end(const Operation& /*operation*/) noexcept {
  const std::lock_guard lock(mutex_);
  if (in_flight_ > 0 && --in_flight_ == 0) busy_ns_ += (clock_.now() - since_).count();
}

}  // namespace mlbench::comm
