#include "mlbench/comm/operation_board.h"

#include "mlbench/base/errors.h"

namespace mlbench::comm {

OperationBoard::Entry OperationBoard::read() const {
  const std::lock_guard lock(mutex_);
  return {operation_, sequence_, in_flight_ > 0, in_flight_ > 0 ? since_ : std::chrono::steady_clock::time_point{}};
}

Operation OperationBoard::begin(const char* name_literal, uint64_t bytes, int root_peer) {
  Operation operation{name_literal, 0, bytes, root_peer};
  {
    const std::lock_guard lock(mutex_);
    operation_ = name_literal;
    operation.sequence = ++sequence_;
    if (in_flight_++ == 0) since_ = std::chrono::steady_clock::now();
  }
  for (OperationObserver* observer : observers_) observer->begin(operation);
  return operation;
}

void OperationBoard::end(const Operation& operation) {
  for (OperationObserver* observer : observers_) observer->end(operation);
  const std::lock_guard lock(mutex_);
  MLBENCH_CHECK(in_flight_ > 0, "end of an operation without a begin");
  if (--in_flight_ > 0) since_ = std::chrono::steady_clock::now();
}

void OperationBoard::attach(OperationObserver& observer) { observers_.push_back(&observer); }

void OperationBoard::detach(OperationObserver& observer) { std::erase(observers_, &observer); }

}  // namespace mlbench::comm
