#include "mlbench/train/stop_point.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/train/train_test.h"

namespace mlbench::train::test {
namespace {

using testing::ElementsAre;

TEST(StopPoint, a_rank_that_does_not_train_has_no_answer) {
  StopPoint stop;
  EXPECT_FALSE(stop.stands());
  stop.ask();
  EXPECT_FALSE(stop.answer());
  EXPECT_FALSE(stop.reached(0)) << "who was asked before its training is not held up";
  EXPECT_TRUE(stop.stands());
  stop.ask();
  EXPECT_EQ(stop.answer(), 1);
  stop.leave();
  EXPECT_FALSE(stop.stands());
}

TEST(StopPoint, nobody_passes_the_answer_before_the_step_is_known) {
  StopPoint stop;
  EXPECT_FALSE(stop.reached(4));
  stop.ask();
  EXPECT_EQ(stop.answer(), 5);
  std::atomic<bool> passed = false;
  std::jthread training([&] {
    EXPECT_FALSE(stop.reached(5)) << "the other ranks do a step more";
    passed = true;
    EXPECT_TRUE(stop.reached(6));
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(passed);
  stop.set(6);
  stop.set(9);  // comes too late
  training.join();
  EXPECT_TRUE(passed);
}

// Tells ranks as a supervisor does.
void stop_all(std::vector<std::unique_ptr<StopPoint>>& stops) {
  for (auto& stop : stops) stop->ask();
  int64_t most = 0;
  for (auto& stop : stops) {
    while (!stop->answer()) std::this_thread::sleep_for(milliseconds(1));
    most = std::max(most, *stop->answer());
  }
  for (auto& stop : stops) stop->set(most);
}

// The ranks are asked while one of them is in the middle of its third step.
TEST(StopPoint, a_run_that_stopped_and_was_resumed_has_the_weights_of_one_that_was_not) {
  for (const int64_t workers : {1, 2, 3}) {
    SCOPED_TRACE(workers);
    TestRun whole(workers), test(workers);
    whole.spread = test.spread = 0.25;
    const auto undisturbed = whole.start();
    for (int64_t rank = 0; rank < workers; ++rank) test.stops.push_back(std::make_unique<StopPoint>());
    std::jthread supervisor;
    test.after_backward = [&](int rank, int64_t step) {
      if (rank != workers - 1 || step != 2) return;
      supervisor = std::jthread([&] { stop_all(test.stops); });
      while (!test.stops[static_cast<size_t>(rank)]->answer()) std::this_thread::sleep_for(milliseconds(1));
    };
    const auto stopped = test.start();
    supervisor.join();
    const int64_t steps = stopped[0].result.steps;
    EXPECT_GE(steps, 3);
    EXPECT_LE(steps, 4) << "no rank is two steps ahead of another";
    EXPECT_GT(undisturbed[0].result.steps, steps);
    for (const RankOutcome& rank : stopped) {
      EXPECT_EQ(rank.result.reason, StopReason::kStopped);
      EXPECT_EQ(rank.result.steps, steps);
      EXPECT_THAT(values_of<std::string>(rank.spool, "end", "reason"), ElementsAre("stopped"));
    }
    test.stops.clear();
    test.after_backward = nullptr;
    const auto resumed = test.start({.segment = 2, .resume_step = steps});
    for (size_t rank = 0; rank < resumed.size(); ++rank) {
      EXPECT_EQ(resumed[rank].result.steps, undisturbed[rank].result.steps);
      EXPECT_EQ(resumed[rank].result.weights_sha256, undisturbed[rank].result.weights_sha256);
      EXPECT_EQ(resumed[rank].buffers, undisturbed[rank].buffers);
    }
  }
}

// The run stops where a checkpoint is due anyway, then before its first step, and then after its last one.
TEST(StopPoint, one_checkpoint_is_written_and_none_where_nothing_was_done) {
  TestRun test;
  test.run.checkpoint.every_steps = 3;
  test.stops.push_back(std::make_unique<StopPoint>());
  test.after_backward = [&](int, int64_t step) {
    if (step == 2) stop_all(test.stops);
  };
  const auto ranks = test.start();
  EXPECT_EQ(ranks[0].result.steps, 3);
  EXPECT_THAT(values_of<int64_t>(ranks[0].spool, "checkpoint", "step"), ElementsAre(3));

  test.stops[0] = std::make_unique<StopPoint>();
  test.stops[0]->set(3);
  EXPECT_EQ(test.start({.segment = 2, .resume_step = 3}).at(0).result.steps, 3);

  TestRun last;
  last.run.limits.max_steps = 3;
  last.stops.push_back(std::make_unique<StopPoint>());
  last.after_backward = [&](int, int64_t step) {
    if (step == 2) stop_all(last.stops);
  };
  EXPECT_EQ(last.start().at(0).result.reason, StopReason::kMaxSteps) << "the run was over by itself";
  EXPECT_FALSE(last.stops[0]->stands());
}

}  // namespace
}  // namespace mlbench::train::test
