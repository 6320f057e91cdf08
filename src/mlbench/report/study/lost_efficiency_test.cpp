#include "mlbench/report/study/lost_efficiency.h"

#include <gmock/gmock.h>

namespace mlbench::report {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;

// One worker: 4 epochs of 20 s of compute and 5 s of input. Four workers: 5 epochs of 5.5 s of compute, 1.5 s of
// waiting, 2 s of communication and 1 s of input.
const WorkerTime kOne{.workers = 1, .work = 4, .seconds = {80, 0, 0, 20, 0}};
const WorkerTime kFour{.workers = 4, .work = 5, .seconds = {27.5, 7.5, 10, 5, 0}};

// 100 worker-seconds became 200. The fifth epoch costs 25 of them, compute 4 x 27.5 - 1.25 x 80 = 10, waiting 30,
// communication 40, and input 4 x 5 - 1.25 x 20 = -5.
TEST(LostEfficiency, SumsUpTermByTerm) {
  const LostEfficiency lost = lost_efficiency(kOne, kFour).value();
  EXPECT_DOUBLE_EQ(lost.lost, 0.5);
  EXPECT_DOUBLE_EQ(lost.more_work, 0.25);
  constexpr double kEnough = 1e-12;
  EXPECT_THAT(lost.shares, ElementsAre(DoubleNear(0.1, kEnough), DoubleEq(0.3), DoubleEq(0.4),
                                       DoubleNear(-0.05, kEnough), DoubleEq(0)));
  EXPECT_NEAR(lost.more_work + total_of(lost.shares), 1, kEnough);
  EXPECT_EQ(largest_loss_words(lost), "exchange that no computation hides, 40 % of the lost efficiency");
}

TEST(LostEfficiency, MoreWorkCanBeTheLargest) {
  WorkerTime more = kFour;
  more.work = 8;
  for (double& part : more.seconds) part *= 8.0 / 5;
  EXPECT_EQ(largest_loss_words(lost_efficiency(kOne, more).value()),
            "more steps to the goal, 45 % of the lost efficiency");
}

TEST(LostEfficiency, OfNearlyNothingHasNoParts) {
  WorkerTime linear = kOne;
  linear.workers = 2;
  for (double& part : linear.seconds) part /= 2;
  EXPECT_FALSE(lost_efficiency(kOne, linear));
  linear.seconds[static_cast<size_t>(TimePart::kWaiting)] = 2.5;
  EXPECT_FALSE(lost_efficiency(kOne, linear)) << "5 of 105";
  linear.seconds[static_cast<size_t>(TimePart::kWaiting)] = 2.7;
  EXPECT_EQ(largest_loss_words(lost_efficiency(kOne, linear).value()),
            "waiting for the slowest rank, all of the lost efficiency");
  EXPECT_FALSE(lost_efficiency(kFour, kOne)) << "a gain";
}

TEST(LostEfficiency, SaysWhichPartsAreBounds) {
  WorkerTime bounds = kFour;
  bounds.exact = false;
  EXPECT_EQ(largest_loss_words(lost_efficiency(kOne, bounds).value()),
            "exchange that no computation hides, at most 40 % of the lost efficiency");
  bounds.seconds = {27.5, 10, 7.5, 5, 0};
  EXPECT_EQ(largest_loss_words(lost_efficiency(kOne, bounds).value()),
            "waiting for the slowest rank, at least 40 % of the lost efficiency");
}

TEST(LostEfficiency, PartsOfARecordSumToItsTime) {
  TimeSums sums{.steps_s = {{"fwd_pass", 3}, {"backprop", 2}, {"agg", 4}, {"batch_load", 0.5}}, .exchange = {}};
  const auto parts = [&] { return worker_time(sums, 10, 2, 1).value(); };
  EXPECT_THAT(parts().seconds, ElementsAre(5, 0, 4, 0.5, 0.5));
  EXPECT_FALSE(parts().exact) << "nothing tells waiting from transfer";
  sums.exchange = record::Exchange{};
  sums.exchange->wait_s = {1, 9};
  EXPECT_THAT(parts().seconds, ElementsAre(5, 1, 3, 0.5, 0.5));
  sums.exchange->exact = true;
  EXPECT_TRUE(parts().exact);
  sums.exchange->hidden_s = {2, 2};
  EXPECT_THAT(parts().seconds, ElementsAre(5, 0, 4, 0.5, 0.5));
  EXPECT_FALSE(worker_time(sums, 0, 2, 1)) << "a figure that does not exist is no zero";
  EXPECT_FALSE(worker_time({}, 10, 2, 1));
}

}  // namespace
}  // namespace mlbench::report
