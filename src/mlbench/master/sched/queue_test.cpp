#include "mlbench/master/sched/queue.h"

#include <gmock/gmock.h>

namespace mlbench::master {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Cluster kNodes{"nodes", 8, false};
const Cluster kLocal{"local", 2, true};

TEST(Queue, StartsWhatFitsInOrder) {
  EXPECT_THAT(startable(kNodes, {}, {{"a", 4}, {"b", 4}, {"c", 1}}), ElementsAre(0, 1));
  EXPECT_THAT(startable(kNodes, {{"x", 6}}, {{"a", 2}, {"b", 1}}), ElementsAre(0));
  EXPECT_THAT(startable(kNodes, {{"x", 8}}, {{"a", 1}}), IsEmpty());
}

TEST(Queue, SmallRunsNeverStarveALargeOne) {
  EXPECT_THAT(startable(kNodes, {{"x", 1}}, {{"large", 8}, {"small", 1}, {"small", 1}}), IsEmpty());
  EXPECT_THAT(startable(kNodes, {}, {{"large", 8}, {"small", 1}}), ElementsAre(0));
}

TEST(Queue, ARunThatCanNeverFitIsRefusedWithTheReason) {
  EXPECT_EQ(refusal(kNodes, 8), std::nullopt);
  EXPECT_THAT(refusal(kNodes, 9).value(), HasSubstr("9 workers do not fit on cluster 'nodes', which has 8 slots"));
  EXPECT_EQ(refusal(kLocal, 100), std::nullopt);
}

TEST(Queue, ThisMachineTakesOneRunAtATime) {
  EXPECT_THAT(startable(kLocal, {}, {{"a", 100}, {"b", 1}}), ElementsAre(0));
  EXPECT_THAT(startable(kLocal, {{"x", 1}}, {{"a", 1}}), IsEmpty());
}

TEST(Queue, ARunThatDoesNotWaitStartsBesideOthers) {
  EXPECT_THAT(startable(kLocal, {{"x", 1}}, {{"a", 1}, {"b", 1, true}}), ElementsAre(1));
  EXPECT_THAT(startable(kLocal, {{"x", 1, true}}, {{"a", 1}, {"b", 1}}), ElementsAre(0));
}

}  // namespace
}  // namespace mlbench::master
