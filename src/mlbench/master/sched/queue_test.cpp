#include "mlbench/master/sched/queue.h"

#include <gmock/gmock.h>

namespace mlbench::master {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Cluster kNodes{"nodes", 8, false};
const Cluster kHere{"local", 4, true};

Job on(const std::string& name, std::vector<std::string> hosts) { return {name, 1, false, std::move(hosts)}; }
Job here(const std::string& name) { return on(name, {""}); }
Job at_once(Job job) {
  job.no_wait = true;
  return job;
}
Job sharing(const std::string& name, int64_t cores) { return {name, 1, false, {""}, cores}; }
Job with_engine(const std::string& name) { return on(name, {}); }

TEST(Queue, ARunThatCanNeverFitIsRefusedWithTheReason) {
  EXPECT_EQ(refusal(kNodes, 8), std::nullopt);
  EXPECT_THAT(refusal(kNodes, 9).value(), HasSubstr("9 workers do not fit on cluster 'nodes', which has 8 slots"));
  EXPECT_EQ(refusal(kHere, 100), std::nullopt);
}

TEST(Queue, AHostTakesOneRunAtATimeInOrder) {
  EXPECT_THAT(startable(kHere, {}, {here("a"), here("b")}), ElementsAre(0));
  EXPECT_THAT(startable(kHere, {here("x")}, {here("a")}), IsEmpty());
  EXPECT_THAT(startable(kHere, {on("x", {"h1"})}, {on("a", {"h1", "h2"})}), IsEmpty());
}

TEST(Queue, RunsOnOtherHostsGoSideBySide) {
  EXPECT_THAT(startable(kHere, {here("x")}, {on("a", {"h1", "h2"}), on("b", {"h3"}), on("c", {"h2"}), here("d")}),
              ElementsAre(0, 1));
}

TEST(Queue, SmallRunsNeverStarveALargeOne) {
  // `large` waits for h1; h2 is free, and kept for it.
  EXPECT_THAT(
      startable(kHere, {on("x", {"h1"})}, {on("large", {"h1", "h2"}), on("small", {"h2"}), on("other", {"h3"})}),
      ElementsAre(2));
  EXPECT_THAT(startable(kHere, {}, {on("large", {"h1", "h2"}), on("small", {"h2"})}), ElementsAre(0));
  // A job behind `large` does not come first, either, to a host that `large` and it need.
  EXPECT_THAT(
      startable(kHere, {on("x", {"h1"})}, {on("large", {"h1", "h2"}), on("next", {"h2", "h3"}), on("z", {"h3"})}),
      IsEmpty());
}

TEST(Queue, ARunThatDoesNotWaitStartsBesideOthers) {
  EXPECT_THAT(startable(kHere, {here("x")}, {here("a"), at_once(here("b"))}), ElementsAre(1));
  EXPECT_THAT(startable(kHere, {at_once(here("x"))}, {here("a"), here("b")}), ElementsAre(0));
}

TEST(Queue, RunsThatShareTheirHostGoTogetherAsLongAsItHasCores) {
  EXPECT_THAT(startable(kHere, {}, {sharing("a", 2), sharing("b", 1), sharing("c", 1), sharing("d", 1)}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(startable(kHere, {sharing("x", 3)}, {sharing("a", 2), sharing("b", 1)}), IsEmpty())
      << "in order, among themselves, too";
  EXPECT_THAT(startable(kHere, {here("x")}, {sharing("a", 1)}), IsEmpty()) << "nobody shares with a plain run";
}

TEST(Queue, APlainRunWaitsForAllThatShareAndHoldsBackLaterOnes) {
  EXPECT_THAT(startable(kHere, {sharing("x", 1)}, {here("plain"), sharing("later", 1)}), IsEmpty());
  EXPECT_THAT(startable(kHere, {sharing("x", 1)}, {sharing("earlier", 1), here("plain"), sharing("later", 1)}),
              ElementsAre(0));
  EXPECT_THAT(startable(kHere, {}, {here("plain"), sharing("later", 1)}), ElementsAre(0));
  EXPECT_THAT(startable(kHere, {}, {sharing("more than there are", 9), sharing("later", 1)}), ElementsAre(0))
      << "it is not for ever the next";
}

TEST(Queue, AnEngineQueuesForItself) {
  EXPECT_THAT(startable(kHere, {here("x"), with_engine("y")}, {here("a"), with_engine("b"), with_engine("c")}),
              ElementsAre(1, 2));
  const std::vector<Job> many(static_cast<size_t>(kMostWithEngines) - 1, with_engine("x"));
  EXPECT_THAT(startable(kHere, many, {with_engine("a"), with_engine("b"), here("c")}), ElementsAre(0, 2))
      << "each has a supervisor";
}

}  // namespace
}  // namespace mlbench::master
