#pragma once

// Time that tests can replace: code that measures takes a `const Clock&`, and tests pass a ManualClock.

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
  // Monotonic time.
  virtual TimePoint now() const = 0;
  // Time since the Unix epoch, UTC. Stamps that people read use this time; durations never do.
  virtual std::chrono::system_clock::time_point wall_now() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall_now() const override { return std::chrono::system_clock::now(); }
};

// A clock that stands still until advance() is called. Both of its times begin at zero. Any thread may use it.
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
// The seconds in so many nanoseconds, the unit of records and spools.
inline double to_seconds(int64_t nanoseconds) { return to_seconds(Nanoseconds(nanoseconds)); }

// The time now plus `timeout`, at least now and at most a year from now, so that nothing overflows.
inline TimePoint deadline_after(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::clamp(timeout, std::chrono::milliseconds(0), kLongest);
}

// Microseconds since the Unix epoch, rounded down: the unit of records, spools and stores.
inline int64_t unix_us(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

// The time as "2026-01-31T12:00:00.123456Z", always with six digits of the fraction.
std::string format_utc(std::chrono::system_clock::time_point time);
// The inverse of format_utc(). Throws UserError naming the text.
std::chrono::system_clock::time_point parse_utc(const std::string& text);
// Reads a time as others write it: "2026-01-31 12:00[:00[.123456]]", with a blank or T, followed by "Z", "+01:00" or
// nothing (UTC). Empty for any other text, and for a date that does not exist.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);

}  // namespace mlbench
