#include "mlbench/master/http/session.h"

#include <gmock/gmock.h>

namespace mlbench::master {
namespace {

using namespace std::chrono_literals;
TEST(Sessions, EndByThemselvesAndWhenClosed) {
  ManualClock clock;
  Sessions sessions(clock);
  const std::string first = sessions.open(), second = sessions.open();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_NE(first, second);
  EXPECT_TRUE(sessions.holds(first));
  for (const std::string& wrong : {std::string(), first + "0", first.substr(1), sessions.make_code()}) {
    EXPECT_FALSE(sessions.holds(wrong)) << wrong;
  }
  sessions.close(first);
  EXPECT_FALSE(sessions.holds(first));
  clock.advance(Sessions::kSessionTime - 1s);
  EXPECT_TRUE(sessions.holds(second));
  clock.advance(1s);
  EXPECT_FALSE(sessions.holds(second));
}

TEST(Sessions, TheOldestMakesRoom) {
  ManualClock clock;
  Sessions sessions(clock);
  const std::string first = sessions.open(), second = sessions.open();
  for (size_t i = 0; i < Sessions::kMost - 1; ++i) sessions.open();
  EXPECT_FALSE(sessions.holds(first));
  EXPECT_TRUE(sessions.holds(second));
}

TEST(Sessions, ACodeWorksOnceAndNotForLong) {
  ManualClock clock;
  Sessions sessions(clock);
  const std::string code = sessions.make_code(), other = sessions.make_code(), late = sessions.make_code();
  EXPECT_FALSE(sessions.take_code(""));
  EXPECT_FALSE(sessions.take_code(code + "0"));
  EXPECT_TRUE(sessions.take_code(code));
  EXPECT_FALSE(sessions.take_code(code));
  clock.advance(Sessions::kCodeTime - 1s);
  EXPECT_TRUE(sessions.take_code(other));
  clock.advance(1s);
  EXPECT_FALSE(sessions.take_code(late));
}

}  // namespace
}  // namespace mlbench::master
