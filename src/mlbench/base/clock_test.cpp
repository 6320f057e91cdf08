#include "mlbench/base/clock.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/forward_clock.h"

namespace mlbench {
namespace {

using namespace std::chrono_literals;

std::chrono::system_clock::time_point at(int64_t seconds, int64_t micros) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds) + std::chrono::microseconds(micros));
}

TEST(Clock, FormatsAndParsesUtc) {
  const std::vector<std::pair<std::string, std::chrono::system_clock::time_point>> cases = {
      {"1970-01-01T00:00:00.000000Z", at(0, 0)},
      {"2000-02-29T12:34:56.000001Z", at(951827696, 1)},
      {"2026-01-31T12:00:00.123456Z", at(1769860800, 123456)},
      {"1969-12-31T23:59:59.999999Z", at(-1, 999999)},
      {"2038-01-19T03:14:08.500000Z", at(int64_t{1} << 31, 500000)}};
  for (const auto& [text, time] : cases) {
    EXPECT_EQ(format_utc(time), text);
    EXPECT_EQ(parse_utc(text), time) << text;
  }
  EXPECT_EQ(format_utc(at(0, 0) + 999ns), "1970-01-01T00:00:00.000000Z");  // down, never up
  EXPECT_EQ(parse_utc("2026-01-31T12:00:00Z"), at(1769860800, 0));
}

TEST(Clock, RefusesWhatIsNoUtcTime) {
  for (const char* text : {"", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z",
                           "2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00Zulu", "2026-01-31T12:00:00.5e3Z"}) {
    EXPECT_THAT([&] { parse_utc(text); },
                testing::ThrowsMessage<UserError>(testing::HasSubstr("'" + std::string(text) + "'")));
  }
}

TEST(Clock, ManualClockStandsStillUntilToldToAdvance) {
  ManualClock clock;
  const TimePoint start = clock.now();
  const auto wall = clock.wall_now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(1500ms);
  EXPECT_EQ(clock.now() - start, 1500ms);
  EXPECT_EQ(clock.wall_now() - wall, 1500ms);
  EXPECT_EQ(to_seconds(clock.now() - start), 1.5);
}

// A wall clock that somebody sets.
class SetClock final : public Clock {
 public:
  TimePoint now() const override { return monotonic.now(); }
  std::chrono::system_clock::time_point wall_now() const override { return monotonic.wall_now() + set; }
  ManualClock monotonic;
  std::chrono::seconds set{7200};
};

TEST(Clock, TheForwardOneDoesNotGoBack) {
  SetClock clock;
  const ForwardClock forward(clock);
  const auto start = forward.now();
  EXPECT_EQ(start, clock.wall_now());
  clock.monotonic.advance(2s);
  clock.set -= 3600s;
  EXPECT_EQ(forward.now() - start, 2s);
}

TEST(Clock, DeadlinesDoNotOverflow) {
  const TimePoint now = std::chrono::steady_clock::now();
  EXPECT_GT(deadline_after(std::chrono::milliseconds::max()), now + std::chrono::hours(24));
  EXPECT_LT(deadline_after(std::chrono::milliseconds::min()), now + std::chrono::hours(1));
}

TEST(Clock, SystemClockIsMonotonic) {
  const SystemClock clock;
  TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace mlbench
