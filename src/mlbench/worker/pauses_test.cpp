#include "mlbench/worker/pauses.h"

#include <gtest/gtest.h>

namespace mlbench::worker {
namespace {

using namespace std::chrono_literals;

TEST(Pauses, AreTheGapsBetweenRounds) {
  const TimePoint begin = TimePoint() + 1h;
  Pauses pauses(begin);
  pauses.round(begin + 250ms);
  EXPECT_EQ(pauses.recent_s(begin + 2s), 0);
  EXPECT_EQ(pauses.recent_s(begin + 12s + 250ms), 12) << "a thread that runs again before the rounds do";
  pauses.round(begin + 12s + 250ms);
  pauses.round(begin + 12s + 500ms);
  EXPECT_EQ(pauses.recent_s(begin + 12s + 600ms), 12);
  EXPECT_EQ(pauses.recent_s(begin + 14s), 12);
  for (auto time = 12s; time < 30s; time += 1s) pauses.round(begin + time);
  EXPECT_EQ(pauses.recent_s(begin + 30s), 0) << "that was long ago";
}

}  // namespace
}  // namespace mlbench::worker
