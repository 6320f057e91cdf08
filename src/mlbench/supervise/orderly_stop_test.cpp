#include "mlbench/supervise/orderly_stop.h"

#include <gmock/gmock.h>

#include <csignal>

#include "mlbench/base/errors.h"

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const TimePoint kBegin{};

net::RankStatus trains(std::optional<int64_t> stop_after = std::nullopt) {
  net::RankStatus rank;
  rank.joined = rank.connected = true;
  rank.heartbeat = {{"step", 7}, {"trains", true}};
  if (stop_after) rank.heartbeat["stop_after"] = *stop_after;
  return rank;
}

exec::RankExit ended(int rank, int code) { return {.rank = rank, .end = {.code = code, .signal = {}}}; }

TEST(OrderlyStop, NeedsThatAllRanksTrain) {
  EXPECT_TRUE(OrderlyStop::possible({trains(), trains()}));
  net::RankStatus prepares = trains();
  prepares.heartbeat["trains"] = false;
  EXPECT_FALSE(OrderlyStop::possible({trains(), prepares}));
  net::RankStatus away = trains();
  away.connected = false;
  EXPECT_FALSE(OrderlyStop::possible({away, trains()}));
  EXPECT_FALSE(OrderlyStop::possible({net::RankStatus()})) << "a rank that has not said a word";
  net::RankStatus collectives = trains();
  collectives.heartbeat.erase("trains");
  EXPECT_FALSE(OrderlyStop::possible({collectives}));
}

TEST(OrderlyStop, TellsOnceTheMostThatARankAnswered) {
  OrderlyStop stop(kBegin);
  EXPECT_FALSE(stop.answer_to({trains(8), trains()}));
  EXPECT_FALSE(stop.step());
  EXPECT_EQ(stop.answer_to({trains(8), trains(9)}), Json({{"stop_after", 9}}));
  EXPECT_EQ(stop.step(), 9);
  EXPECT_FALSE(stop.answer_to({trains(8), trains(9)})) << "the ranks know";
}

TEST(OrderlyStop, WaitsForAnswersAndForTheCheckpointAWhile) {
  OrderlyStop stop(kBegin);
  EXPECT_EQ(stop.given_up(kBegin + kAnswerPatience - 1ms), "");
  EXPECT_EQ(stop.given_up(kBegin + kAnswerPatience), "not all ranks answered within 3 s");
  stop.answer_to({trains(8)});
  EXPECT_EQ(stop.given_up(kBegin + kOrderlyPatience - 1ms), "");
  EXPECT_EQ(stop.given_up(kBegin + kOrderlyPatience), "the ranks were not done within 20 s");
}

TEST(OrderlyStop, ARankThatFailsEndsTheWait) {
  OrderlyStop stop(kBegin);
  stop.see(ended(0, 0), trains());
  EXPECT_EQ(stop.given_up(kBegin), "");
  net::RankStatus full = trains();
  full.report = Json{{"kind", "disk_full"}, {"message", "cannot write state.json: No space left on device"}};
  stop.see(ended(2, static_cast<int>(ExitCode::kIoError)), full);
  stop.see(ended(3, 1), trains());
  EXPECT_EQ(stop.given_up(kBegin), "rank 2: cannot write state.json: No space left on device");

  for (const exec::RankExit& exit : {exec::RankExit{.rank = 1, .end = {.code = 137, .signal = SIGKILL}},
                                     exec::RankExit{.rank = 1, .lost = true}, ended(1, 130)}) {
    OrderlyStop other(kBegin);
    other.see(exit, trains());
    EXPECT_THAT(other.given_up(kBegin), HasSubstr("rank 1 ended"));
  }
}

}  // namespace
}  // namespace mlbench::supervise
