#pragma once

// Time, injectable: code that measures takes a `const Clock&`, tests pass a ManualClock.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace mlbench {

using TimePoint = std::chrono::steady_clock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic.
  virtual TimePoint now() const = 0;
  // Since the Unix epoch, UTC; for stamps that people read, never for durations.
  virtual std::chrono::system_clock::time_point wall_now() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall_now() const override { return std::chrono::system_clock::now(); }
};

// Stands still until told to advance, from the zero of both clocks. Any thread.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Nanoseconds(since_zero_.load())); }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(Nanoseconds(since_zero_.load())));
  }
  void advance(Nanoseconds duration) { since_zero_ += duration.count(); }

 private:
  std::atomic<Nanoseconds::rep> since_zero_ = 0;
};

inline double to_seconds(Nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }
// Of so many nanoseconds, as records and spools count.
inline double to_seconds(int64_t nanoseconds) { return to_seconds(Nanoseconds(nanoseconds)); }

// now() + timeout, at least now() and at most a year from now, so that nothing overflows.
inline TimePoint deadline_after(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::clamp(timeout, std::chrono::milliseconds(0), kLongest);
}

// Microseconds since the Unix epoch, rounded down: how records, spools and stores count.
inline int64_t unix_us(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

// "2026-01-31T12:00:00.123456Z" (always six fraction digits).
std::string format_utc(std::chrono::system_clock::time_point time);
// Inverse of format_utc; throws UserError naming the text.
std::chrono::system_clock::time_point parse_utc(const std::string& text);
// What others write: "2026-01-31 12:00[:00[.123456]]" with a blank or T, and "Z", "+01:00" or nothing (UTC) behind it;
// empty for anything else, and for dates that do not exist.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);

}  // namespace mlbench
