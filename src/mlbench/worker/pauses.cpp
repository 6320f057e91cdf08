#include "mlbench/worker/pauses.h"

namespace mlbench::worker {

namespace {
constexpr std::chrono::seconds kLeastPause{2}, kRecent{10};
}  // namespace

void Pauses::round(TimePoint now) {
  if (now - last_round_ > kLeastPause) {
    pause_ = now - last_round_;
    pause_end_ = now;
  }
  last_round_ = now;
}

double Pauses::recent_s(TimePoint now) const {
  if (now - last_round_ > kLeastPause) return to_seconds(now - last_round_);
  return now - pause_end_ <= kRecent ? to_seconds(pause_) : 0;
}

}  // namespace mlbench::worker
