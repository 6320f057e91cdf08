#include "mlbench/comm/wrap/timeline.h"

#include <algorithm>

namespace mlbench::comm {

OperationSpans::OperationSpans(OperationBoard& board, track::TimelineRecorder& timeline)
    : board_(board), timeline_(timeline) {
  board_.attach(*this);
}

OperationSpans::~OperationSpans() { board_.detach(*this); }

void OperationSpans::begin(const Operation& operation) noexcept {
  const TimePoint now = timeline_.clock().now();
  const std::lock_guard lock(mutex_);
  open_.push_back({operation.sequence, now});
}

void OperationSpans::end(const Operation& operation) noexcept {
  const TimePoint now = timeline_.clock().now();
  TimePoint begin;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(open_, operation.sequence, &Open::sequence);
    if (found == open_.end()) return;
    begin = found->begin;
    open_.erase(found);
  }
  timeline_.operation(operation.name, operation.sequence, operation.bytes, operation.root_peer, begin, now);
}

}  // namespace mlbench::comm
