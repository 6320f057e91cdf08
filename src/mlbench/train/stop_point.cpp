#include "mlbench/train/stop_point.h"

namespace mlbench::train {

bool StopPoint::reached(int64_t step) {
  std::unique_lock lock(mutex_);
  told_.wait(lock, [&] { return !answer_ || step < *answer_ || stop_at_; });
  if (stop_at_ && step >= *stop_at_) return true;
  steps_begun_ = step + 1;
  return false;
}

void StopPoint::leave() {
  const std::lock_guard lock(mutex_);
  steps_begun_.reset();
}

bool StopPoint::stands() const {
  const std::lock_guard lock(mutex_);
  return steps_begun_.has_value();
}

void StopPoint::ask() {
  const std::lock_guard lock(mutex_);
  if (!answer_) answer_ = steps_begun_;
}

std::optional<int64_t> StopPoint::answer() const {
  const std::lock_guard lock(mutex_);
  return answer_;
}

void StopPoint::set(int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_at_) stop_at_ = step;
  }
  told_.notify_all();
}

}  // namespace mlbench::train
