// Tests the loop as a whole, in one process: why it ends, what is in its spools, and where the time went.

#include "mlbench/train/train.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/base/read_bytes.h"
#include "mlbench/models/model.h"
#include "mlbench/train/train_test.h"

namespace mlbench::train::test {
namespace {

using record::StepKind;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t ns(milliseconds time) { return std::chrono::nanoseconds(time).count(); }

// ---- why a run ends -------------------------------------------------------------------------------------------------

// Each test runs with 1 and with 2 ranks.
class StopTest : public testing::TestWithParam<int64_t> {
 protected:
  // Checks that all ranks end for the same reason after the same step with the same weights, and returns the outcome of
  // rank 0.
  RankOutcome end_of(TestRun& test, const Start& start = {}) {
    auto ranks = test.start(start);
    for (const RankOutcome& rank : ranks) {
      EXPECT_EQ(rank.result.reason, ranks[0].result.reason);
      EXPECT_EQ(rank.result.steps, ranks[0].result.steps);
      EXPECT_EQ(rank.result.weights_sha256, ranks[0].result.weights_sha256);
      EXPECT_EQ(rank.progress, rank.spool.steps.empty() ? 0 : rank.result.steps);
      EXPECT_EQ(values_of<std::string>(rank.spool, "end", "reason"),
                std::vector{std::string(name_of(rank.result.reason))});
      EXPECT_EQ(values_of<int64_t>(rank.spool, "end", "step"), std::vector{rank.result.steps});
    }
    return std::move(ranks[0]);
  }

  static std::vector<int64_t> evaluated(const RankOutcome& rank) {
    return values_of<int64_t>(rank.spool, "evaluation", "step");
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, StopTest, testing::Values(1, 2));

TEST_P(StopTest, at_the_end_of_the_tasks_epochs) {
  TestRun test(GetParam());
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kEpochs);
  EXPECT_EQ(rank.result.steps, 12);
  EXPECT_THAT(evaluated(rank), ElementsAre(3, 6, 9, 12));
}

// Two ranks have batches of 2 * 2 samples each and 4 * 2 epochs, of ceil(10 / 8) steps.
TEST_P(StopTest, at_the_end_of_epochs_that_grow_with_the_workers) {
  TestRun test(GetParam());
  test.run.task.task.batch_scaling = "linear";
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kEpochs);
  if (GetParam() == 1) {
    EXPECT_THAT(evaluated(rank), ElementsAre(3, 6, 9, 12));
  } else {
    EXPECT_THAT(evaluated(rank), ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
  }
}

TEST_P(StopTest, at_the_limit_of_epochs_also_of_a_part_of_one) {
  TestRun test(GetParam());
  test.run.limits.max_epochs = 1.5;
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxEpochs);
  EXPECT_EQ(rank.result.steps, 5);
  EXPECT_THAT(evaluated(rank), ElementsAre(3, 5));
  EXPECT_THAT(values_of<bool>(rank.spool, "evaluation", "cadence"), ElementsAre(true, false));
}

TEST_P(StopTest, at_the_limit_of_steps) {
  TestRun test(GetParam());
  test.run.limits.max_steps = 4;
  test.run.limits.max_epochs = 3;
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxSteps);
  EXPECT_EQ(rank.result.steps, 4);
  EXPECT_THAT(evaluated(rank), ElementsAre(3, 4));
}

TEST_P(StopTest, the_first_of_several_limits_counts) {
  TestRun test(GetParam());
  test.run.limits.max_steps = 100;
  test.run.limits.max_epochs = 2;
  EXPECT_EQ(end_of(test).result.reason, StopReason::kMaxEpochs);
}

// After 6 steps all samples of a batch are right, of one rank and of two.
TEST_P(StopTest, at_the_goal_on_the_test_split) {
  TestRun test(GetParam());
  test.run.task.task.goal.target = 100;
  test.run.limits.max_steps = 6;  // reached there as well: the goal counts
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kGoal);
  EXPECT_EQ(rank.result.steps, GetParam() == 1 ? 6 : 3);
  EXPECT_THAT(values_of<double>(rank.spool, "goal", "value"), ElementsAre(100));
  EXPECT_THAT(values_of<double>(rank.spool, "goal", "target"), ElementsAre(100));
}

TEST_P(StopTest, at_the_light_goal) {
  TestRun test(GetParam());
  test.run.task.task.goal.light_target = 50;
  test.run.limits.light = true;
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kGoal);
  EXPECT_EQ(rank.result.steps, 3);
  EXPECT_THAT(values_of<double>(rank.spool, "goal", "target"), ElementsAre(50));
}

TEST_P(StopTest, at_the_goal_on_the_training_split) {
  TestRun test(GetParam());
  test.run.task.task.goal.split = "train";
  test.run.task.task.goal.target = 90;
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kGoal);
  EXPECT_EQ(rank.result.steps, 6);
  // The weights that reached the goal are evaluated all the same.
  EXPECT_THAT(evaluated(rank), ElementsAre(3, 6));
  // Samples that are right, of 10: min(3, 4) + min(4, 4) + min(5, 2) with one rank, all with two.
  EXPECT_THAT(values_of<double>(rank.spool, "goal", "value"), ElementsAre(GetParam() == 1 ? 90 : 100));
}

// After 2 steps two of a rank's samples are right.
TEST_P(StopTest, a_limit_buys_no_goal) {
  TestRun test(GetParam());
  test.run.task.task.goal.target = 30;
  test.run.limits.max_steps = 2;
  RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxSteps);
  EXPECT_THAT(values_of<bool>(rank.spool, "evaluation", "cadence"), ElementsAre(false));
  EXPECT_THAT(events_named(rank.spool, "goal"), IsEmpty());

  test.run.limits.max_steps = 0;
  test.run.limits.max_time_s = 0.1;  // the second step ends after 0.17 s
  rank = end_of(test, {.segment = 2});
  EXPECT_EQ(rank.result.reason, StopReason::kMaxTime);
  EXPECT_THAT(events_named(rank.spool, "goal"), IsEmpty());

  test.run.limits.max_time_s = 0;
  test.run.limits.max_epochs = 0.5;
  for (const char* split : {"test", "train"}) {
    test.run.task.task.goal.split = split;
    rank = end_of(test, {.segment = split[1] == 'e' ? 3 : 4});
    EXPECT_EQ(rank.result.reason, StopReason::kMaxEpochs);
    EXPECT_EQ(rank.result.steps, 2);
    EXPECT_THAT(events_named(rank.spool, "goal"), IsEmpty());
  }
}

TEST_P(StopTest, past_the_goal_to_the_end) {
  TestRun test(GetParam());
  test.run.task.task.goal.target = 50;  // after 3 steps
  test.run.limits.to_the_end = true;
  RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kEpochs);
  EXPECT_EQ(rank.result.steps, 12);
  EXPECT_THAT(values_of<int64_t>(rank.spool, "goal", "step"), ElementsAre(3));

  test.run.limits.max_steps = 7;
  test.run.checkpoint.every_steps = 4;
  rank = end_of(test, {.segment = 2});
  EXPECT_EQ(rank.result.reason, StopReason::kMaxSteps);
  EXPECT_EQ(rank.result.steps, 7);
  EXPECT_THAT(values_of<int64_t>(rank.spool, "goal", "step"), ElementsAre(3));

  rank = end_of(test, {.segment = 3, .resume_step = 4});
  EXPECT_EQ(rank.result.reason, StopReason::kMaxSteps);
  EXPECT_THAT(evaluated(rank), ElementsAre(6, 7));
  EXPECT_THAT(events_named(rank.spool, "goal"), IsEmpty()) << "it was met in the segment before";
}

TEST_P(StopTest, in_the_middle_of_an_epoch_when_time_is_up) {
  TestRun test(GetParam());
  test.run.limits.max_time_s = 0.1;  // on rank 0's clock, the second step ends after 0.17 s
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxTime);
  EXPECT_EQ(rank.result.steps, 2);
  EXPECT_THAT(evaluated(rank), ElementsAre(2));
}

TEST_P(StopTest, time_of_evaluations_and_of_earlier_segments_counts) {
  TestRun test(GetParam());
  test.run.limits.max_time_s = 0.3;  // 3 steps take 0.255 s, their evaluation 0.1 s
  RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxTime);
  EXPECT_EQ(rank.result.steps, 3);
  EXPECT_THAT(evaluated(rank), ElementsAre(3));

  test.run.limits.max_time_s = 0.55;
  rank = end_of(test, {.segment = 2, .resume_step = 3, .elapsed_before = milliseconds(355)});
  EXPECT_EQ(rank.result.reason, StopReason::kMaxTime);
  EXPECT_EQ(rank.result.steps, 6);
  rank = end_of(test, {.segment = 3, .resume_step = 6, .elapsed_before = milliseconds(600)});
  EXPECT_EQ(rank.result.steps, 6);
  EXPECT_THAT(evaluated(rank), IsEmpty());
}

TEST_P(StopTest, the_clock_is_looked_at_seldom_and_the_end_is_exact) {
  TestRun test(GetParam());
  test.run.fixed_batch = true;
  test.run.task.task.epochs = 1e6;
  test.run.limits.max_time_s = 84.95;  // the last of the steps ends after 85 s
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxTime);
  EXPECT_EQ(rank.result.steps, 1000);
  // The run has two barriers, the gather of the hashes, and with two ranks the sums of gradients and running
  // statistics. The other operations are for the clock: every hundredth of the limit, and in the end after every step.
  const int64_t other = GetParam() == 1 ? 3 : 3 + 1000 + 1;
  EXPECT_LT(rank.operations - other, 200);
}

TEST_P(StopTest, time_holds_within_a_step_or_a_hundredth_whatever_the_pace) {
  const std::pair<const char*, ExtraTime> paces[] = {
      {"even", {}},
      {"slow at first", [](int64_t step) { return milliseconds(step == 0 ? 900 : 0); }},
      {"fast at first", [](int64_t step) { return milliseconds(step == 0 ? 0 : 8500); }},
      {"slower by ten", [](int64_t step) { return milliseconds(step < 70 ? 0 : 765); }},
      {"faster by ten", [](int64_t step) { return milliseconds(step < 12 ? 765 : 0); }},
      {"uneven", [](int64_t step) { return milliseconds(step % 7 == 0 ? 300 : 0); }},
  };
  for (const auto& [name, extra] : paces) {
    for (const double limit_s : {0.001, 0.3, 2.0, 20.0}) {
      TestRun test(GetParam());
      test.extra = extra;
      test.run.fixed_batch = true;
      test.run.task.task.epochs = 1e6;
      test.run.limits.max_time_s = limit_s;
      const RankOutcome rank = end_of(test);
      EXPECT_EQ(rank.result.reason, StopReason::kMaxTime);
      int64_t longest_ns = 0;
      for (const record::StepRecord& step : rank.spool.steps) longest_ns = std::max(longest_ns, step.total_ns());
      const double elapsed_s = static_cast<double>(record::elapsed_ns({rank.spool})) * 1e-9;
      EXPECT_GE(elapsed_s, limit_s) << name;
      EXPECT_LE(elapsed_s - limit_s, std::max(static_cast<double>(longest_ns) * 1e-9, 0.01 * limit_s))
          << name << ", " << limit_s << " s, " << rank.result.steps << " steps";
    }
  }
}

TEST_P(StopTest, a_fixed_batch_runs_beyond_the_epochs_without_any) {
  TestRun test(GetParam());
  test.run.fixed_batch = true;
  test.run.checkpoint.every_steps = 5;
  test.run.limits.max_steps = 20;
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kMaxSteps);
  EXPECT_EQ(rank.result.steps, 20);
  std::vector<std::string> names;
  for (const Json& event : rank.spool.events) names.push_back(event["event"]);
  EXPECT_THAT(names, ElementsAre("begin", "end"));
}

TEST_P(StopTest, an_order_of_convolutions_that_no_layer_has_is_noted) {
  TestRun test(GetParam());
  test.run.limits.max_steps = 1;
  EXPECT_FALSE(end_of(test).spool.events.front().contains("notes"));
  TestRun forced(GetParam());
  forced.run.limits.max_steps = 1;
  forced.run.convolution = "winograd";
  EXPECT_EQ(end_of(forced).spool.events.front()["notes"],
            Json::array({"--convolution winograd: no convolution has this order (the framework computes none)"}));
}

TEST_P(StopTest, another_framework_than_the_tasks_is_noted) {
  TestRun test(GetParam());
  test.run.limits.max_steps = 1;
  test.run.framework = test.run.task.task.framework = "tensorflow";
  EXPECT_FALSE(end_of(test).spool.events.front().contains("notes"));
  TestRun other(GetParam());
  other.run.limits.max_steps = 1;
  other.run.task.task.framework = "tensorflow";
  EXPECT_EQ(end_of(other).spool.events.front()["notes"],
            Json::array({"task known names framework tensorflow, and this run took known"}));
}

TEST_P(StopTest, emulated_steps_learn_nothing_and_nothing_is_evaluated) {
  TestRun test(GetParam());
  test.run.emulated_step_s = 0.15;
  const RankOutcome rank = end_of(test);
  EXPECT_EQ(rank.result.reason, StopReason::kEpochs);
  EXPECT_EQ(rank.result.steps, 12);
  std::vector<std::string> names;
  for (const Json& event : rank.spool.events) {
    names.push_back(event["event"]);
    if (names.back() != "epoch") continue;
    EXPECT_TRUE(event.contains("train_ns"));
    EXPECT_FALSE(event.contains("metrics"));
    EXPECT_FALSE(event.contains("train_loss"));
  }
  EXPECT_THAT(names, ElementsAre("begin", "epoch", "epoch", "epoch", "epoch", "end"));
  for (const record::StepRecord& step : rank.spool.steps) EXPECT_TRUE(std::isnan(step.loss_sum));
}

TEST_P(StopTest, emulated_steps_leave_the_checkpoints_that_are_asked_for) {
  using Steps = std::vector<int64_t>;
  for (const auto& [every, expected] : {std::pair(0, Steps()), std::pair(2, Steps{2, 4, 6}), std::pair(4, Steps{4})}) {
    TestRun test(GetParam());
    test.run.emulated_step_s = 0.15;
    test.run.limits.max_steps = 6;
    test.run.checkpoint.every_steps = every;
    EXPECT_EQ(values_of<int64_t>(end_of(test).spool, "checkpoint", "step"), expected) << every;
  }
}

// ---- what is computed -----------------------------------------------------------------------------------------------

// Two steps with a gradient of 1, momentum 0.5 and learning rate 1 subtract 1 and then 1.5.
TEST(Train, one_and_two_ranks_get_the_weights_that_follow_from_the_gradients) {
  for (const int64_t workers : {1, 2}) {
    TestRun test(workers);
    test.run.limits.max_steps = 2;
    const auto ranks = test.start();

    const models::ModelDescription model = models::Chain({4}).linear("fc", 2).finish();
    std::vector<float> expected;
    for (size_t i = 0; i < model.parameters.size(); ++i) {
      std::vector<float> values(i == 0 ? 8 : 2);  // weight and bias
      models::initialise(model.parameters[i], i, framework::FrameworkOptions().seed, values);
      for (const float value : values) expected.push_back(value - 1.0F - 1.5F);
    }
    for (const RankOutcome& rank : ranks) EXPECT_EQ(rank.parameters, expected) << workers << " ranks";
  }
}

// Rank r adds r + 1 in each step: after 3 steps the statistics are 3 and 6, on average 4.5.
TEST(Train, the_average_of_running_statistics_is_evaluated_and_each_rank_trains_on_with_its_own) {
  TestRun test(2);
  test.run.limits.max_epochs = 2;
  const auto ranks = test.start();
  for (const RankOutcome& rank : ranks) EXPECT_THAT(rank.evaluated_with, ElementsAre(4.5F, 9.0F));
  EXPECT_THAT(ranks[0].buffers, Each(6.0F));
  EXPECT_THAT(ranks[1].buffers, Each(12.0F));
}

TEST(Train, a_rank_without_samples_in_a_step_computes_nothing_and_adds_nothing) {
  TestRun test(2, 9);  // the third step of each epoch has one sample: rank 0's
  test.run.limits.max_epochs = 1;
  const auto ranks = test.start();
  EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  EXPECT_THAT(ranks[1].buffers, Each(4.0F));  // two steps
  const record::Clocks clocks = record::derive_clocks({ranks[1].spool});
  EXPECT_EQ(clocks.steps, 3);
  EXPECT_EQ(clocks.samples, 4);
  EXPECT_EQ(clocks.kinds_ns[static_cast<size_t>(StepKind::kForward)], 2 * 2 * ns(kForward));
  EXPECT_EQ(clocks.kinds_ns[static_cast<size_t>(StepKind::kBackward)], 2 * 2 * ns(kBackward));
}

// This holds where a rank has no samples in a step, too (the third of each epoch, with 9): the rank reports its whole
// gradient, and nobody waits.
TEST(Train, an_exchange_beside_the_backward_pass_gives_the_same_weights) {
  for (const int64_t workers : {1, 2, 4}) {
    for (const int64_t samples : {9, 10}) {
      const auto ranks_with = [&](bool overlap) {
        TestRun test(workers, samples);
        test.spread = 0.3;
        test.run.task.task.optimizer.options["by_layer"] = true;
        test.run.task.task.optimizer.options["overlap"] = overlap;
        test.run.limits.max_epochs = 2;
        return test.start();
      };
      const auto expected = ranks_with(false), overlapped = ranks_with(true);
      for (size_t rank = 0; rank < expected.size(); ++rank) {
        EXPECT_EQ(overlapped[rank].parameters, expected[rank].parameters) << rank << " of " << workers;
        EXPECT_EQ(overlapped[rank].result.weights_sha256, expected[rank].result.weights_sha256);
        EXPECT_EQ(events_named(overlapped[rank].spool, "begin")[0]["effective"]["overlap"], true);
        for (size_t i = 0; i < expected[rank].spool.steps.size(); ++i) {
          EXPECT_EQ(overlapped[rank].spool.steps[i].bytes, expected[rank].spool.steps[i].bytes);
          EXPECT_EQ(expected[rank].spool.steps[i].hidden_ns[0], 0) << "nothing ran beside it";
        }
      }
    }
  }
}

// The last bucket that rank 1 has reported is under way, or has not begun, when its step fails.
TEST(Train, a_step_that_fails_beside_an_exchange_ends_all_ranks) {
  TestRun test(2);
  test.run.task.task.optimizer.options["by_layer"] = true;
  test.run.task.task.optimizer.options["overlap"] = true;
  test.after_backward = [](int rank, int64_t step) {
    if (rank == 1 && step == 2) throw IoError("from the backward pass");
  };
  EXPECT_THROW(test.start(), CommError) << "rank 0, which the other one has left";
}

// ---- what is told ---------------------------------------------------------------------------------------------------

// The events of a spool as text, without members whose values cannot be known beforehand.
std::vector<std::string> told(const RankOutcome& rank) {
  std::vector<std::string> lines;
  for (Json event : rank.spool.events) {
    if (event.contains("peak_rss")) {
      EXPECT_GT(event["peak_rss"].get<int64_t>(), 0);
      event.erase("peak_rss");
    }
    if (read_bytes_so_far() && (event["event"] == "epoch" || event["event"] == "end")) {
      for (const char* read : {"device_read_bytes", "call_read_bytes"}) {
        EXPECT_GE(event.value(read, int64_t{-1}), 0) << read;
        event.erase(read);
      }
    }
    lines.push_back(canonical_json(event));
  }
  return lines;
}

// The expected contents of a spool, with the sequence numbers in it.
class Expected {
 public:
  void add(const std::string& name, milliseconds end, int64_t step, Json members) {
    Json event = {{"event", name}, {"sequence", lines_.size()}, {"end_ns", ns(end)}};
    if (name != "begin") event["step"] = step;
    event.update(members);
    lines_.push_back(canonical_json(event));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

Json begin_of(const std::string& stack) {
  return {{"start_step", 0},
          {"parameters", 10},
          {"effective",
           {{"name", "known"},
            {"pinned", false},
            {"overlap", false},
            {"buckets", 1},
            {"by_layer", false},
            {"one_collective", true},
            {"collectives_by", "mlbench"}}},
          {"versions", {{"known", "1.0"}}},
          {"comm_stack", stack},
          {"storage", {{"data", nullptr}, {"run", "local"}}},
          {"steps_per_epoch", 3},
          {"last_step", 6},
          {"samples_before", 0}};
}

TEST(Events, of_a_run_of_one_rank) {
  TestRun test;
  test.run.task.task.goal.target = 100;
  test.run.limits.max_epochs = 2;
  test.run.checkpoint.every_steps = 4;
  const RankOutcome rank = test.start()[0];

  Expected expected;
  milliseconds now{0};
  expected.add("begin", now, 0, begin_of("in-process"));
  now += 3 * kStep;
  // Steps 0, 1 and 2 have 4, 4 and 2 samples, a mean loss of 8, 7 and 6, and 0, 1 and 2 samples right.
  expected.add(
      "epoch", now, 3,
      {{"epoch", 1}, {"train_ns", ns(3 * kStep)}, {"train_loss", 7.2}, {"metrics", {{"Prec@1", 30.0}, {"loss", 7.2}}}});
  now += kEvaluation;
  expected.add("evaluation", now, 3,
               {{"epoch", 1.0},
                {"samples", 10},
                {"split", "test"},
                {"train_ns", ns(3 * kStep)},
                {"duration_ns", ns(kEvaluation)},
                {"metrics", {{"Prec@1", 50.0}, {"loss", 5.0}}},
                {"cadence", true}});
  now += kStep + kCheckpoint;
  expected.add("checkpoint", now, 4, {{"path", "step-000000004"}});
  now += 2 * kStep;
  const int64_t train_ns = ns(6 * kStep + kCheckpoint);
  expected.add(
      "epoch", now, 6,
      {{"epoch", 2}, {"train_ns", train_ns}, {"train_loss", 4.2}, {"metrics", {{"Prec@1", 90.0}, {"loss", 4.2}}}});
  now += kEvaluation;
  expected.add("evaluation", now, 6,
               {{"epoch", 2.0},
                {"samples", 20},
                {"split", "test"},
                {"train_ns", train_ns},
                {"duration_ns", ns(kEvaluation)},
                {"metrics", {{"Prec@1", 100.0}, {"loss", 2.0}}},
                {"cadence", true}});
  expected.add("goal", now, 6,
               {{"metric", "Prec@1"},
                {"split", "test"},
                {"target", 100.0},
                {"value", 100.0},
                {"train_ns", train_ns},
                {"epoch", 2.0}});
  now += kCheckpoint;
  expected.add("checkpoint", now, 6, {{"path", "step-000000006"}});
  expected.add("end", now, 6, {{"reason", "goal"}, {"weights_sha256", rank.result.weights_sha256}, {"samples", 20}});
  EXPECT_EQ(told(rank), expected.lines());
  EXPECT_EQ(rank.time, now);
}

TEST(Events, of_the_other_ranks_say_when_and_not_what) {
  TestRun test(2);
  test.run.task.task.goal.target = 100;
  test.run.limits.max_epochs = 2;
  test.run.checkpoint.every_steps = 2;
  const auto ranks = test.start();
  ASSERT_EQ(ranks[0].result.steps, 3);
  EXPECT_EQ(events_named(ranks[0].spool, "goal").size(), 1U);

  Expected expected;
  milliseconds now{0};
  expected.add("begin", now, 0, begin_of("in-process"));
  now += 2 * (2 * kStep + kCheckpoint);  // twice as slow as rank 0
  expected.add("checkpoint", now, 2, Json::object());
  now += 2 * kStep;
  expected.add("epoch", now, 3, {{"epoch", 1}});
  now += 2 * kEvaluation;
  expected.add("evaluation", now, 3, {{"duration_ns", ns(2 * kEvaluation)}});
  now += 2 * kCheckpoint;
  expected.add("checkpoint", now, 3, Json::object());
  expected.add("end", now, 3,
               {{"reason", "goal"}, {"weights_sha256", ranks[0].result.weights_sha256}, {"samples", 10}});
  EXPECT_EQ(told(ranks[1]), expected.lines());
}

TEST(Steps, hold_samples_loss_rate_and_bytes) {
  TestRun test(2);
  test.run.limits.max_steps = 3;
  for (const RankOutcome& rank : test.start()) {
    const auto& steps = rank.spool.steps;
    ASSERT_EQ(steps.size(), 3U);  // none is short enough to be merged
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(steps[i].first_step, i);
      EXPECT_EQ(steps[i].count, 1U);
      EXPECT_EQ(steps[i].samples, i < 2 ? 2U : 1U);
      EXPECT_EQ(steps[i].loss_sum, static_cast<double>((8 - i) * steps[i].samples));
      EXPECT_EQ(steps[i].lr, 1);
      EXPECT_EQ(steps[i].bytes, 10 * sizeof(float));
      EXPECT_EQ(steps[i].epoch, 0U);
    }
  }
}

// ---- where the time went --------------------------------------------------------------------------------------------

TEST(Clock, every_moment_of_a_run_is_of_one_kind_or_of_an_evaluation) {
  for (const int64_t workers : {1, 2}) {
    TestRun test(workers);
    test.run.limits.max_steps = 7;
    test.run.checkpoint.every_steps = 2;
    const auto ranks = test.start();
    for (int64_t rank = 0; rank < workers; ++rank) {
      const RankOutcome& outcome = ranks[static_cast<size_t>(rank)];
      const record::Clocks clocks = record::derive_clocks({outcome.spool});
      const auto kind = [&](StepKind kind) {
        return milliseconds(clocks.kinds_ns[static_cast<size_t>(kind)] / (1'000'000 * (rank + 1)));
      };
      EXPECT_EQ(clocks.steps, 7);
      EXPECT_EQ(kind(StepKind::kBatchLoad), milliseconds(0));
      EXPECT_EQ(kind(StepKind::kInit), 7 * kInit);
      EXPECT_EQ(kind(StepKind::kForward), 7 * kForward);
      EXPECT_EQ(kind(StepKind::kLoss), 7 * kLoss);
      EXPECT_EQ(kind(StepKind::kBackward), 7 * kBackward);
      EXPECT_EQ(kind(StepKind::kAggregate), 7 * kAggregate);
      EXPECT_EQ(kind(StepKind::kOptimizer), 7 * kUpdate);
      EXPECT_EQ(kind(StepKind::kMetrics), 7 * kMetrics);
      EXPECT_EQ(kind(StepKind::kCheckpoint), 3 * kCheckpoint);  // after steps 2, 4 and 6

      const auto evaluations = values_of<int64_t>(outcome.spool, "evaluation", "duration_ns");
      EXPECT_EQ(evaluations.size(), 3U);
      const int64_t evaluation_ns = std::accumulate(evaluations.begin(), evaluations.end(), int64_t{0});
      const int64_t last_checkpoint_ns = (rank + 1) * ns(kCheckpoint);
      EXPECT_EQ(clocks.train_ns + evaluation_ns + last_checkpoint_ns, ns(outcome.time));
      EXPECT_EQ(outcome.spool.steps.back().end_ns,
                ns(outcome.time) - (rank + 1) * ns(kEvaluation) - last_checkpoint_ns);
    }
  }
}

TEST(Clock, a_timeline_has_every_moment_of_a_run_in_order) {
  using record::Span;
  using record::SpanKind;
  TestRun test(2);
  test.run.timeline = true;
  test.run.limits.max_steps = 7;
  test.run.checkpoint.every_steps = 2;
  for (const RankOutcome& outcome : test.start()) {
    std::array<std::vector<int64_t>, record::kSpanKinds> spent;
    std::vector<int64_t> steps;
    int64_t end = 0;
    for (const Span& span : outcome.timeline.spans) {
      spent[static_cast<size_t>(span.kind)].push_back(span.end_ns - span.begin_ns);
      if (span.kind == SpanKind::kLayer) {
        EXPECT_GE(span.begin_ns, end) << "within the phase that follows it here";
        continue;
      }
      EXPECT_EQ(span.begin_ns, end) << span.name;
      end = span.end_ns;
      if (span.name == "fwd_pass") steps.push_back(span.step);
      EXPECT_EQ(span.step >= 0, span.kind == SpanKind::kPhase) << span.name;
    }
    EXPECT_EQ(end, ns(outcome.time));
    EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5, 6));
    const auto sum = [&](SpanKind kind) {
      const auto& all = spent[static_cast<size_t>(kind)];
      return std::accumulate(all.begin(), all.end(), int64_t{0});
    };
    const int64_t factor = ns(outcome.time) / ns(7 * kStep + 3 * kEvaluation + 4 * kCheckpoint);
    EXPECT_EQ(sum(SpanKind::kPhase), factor * ns(7 * kStep));
    EXPECT_EQ(sum(SpanKind::kEvaluation), factor * ns(3 * kEvaluation));
    EXPECT_EQ(sum(SpanKind::kCheckpoint), factor * ns(4 * kCheckpoint));
    EXPECT_EQ(sum(SpanKind::kLayer), factor * ns(7 * (kForward + kBackward)));
    EXPECT_EQ(sum(SpanKind::kPrepare), 0);
  }
}

TEST(Clock, without_a_timeline_there_is_no_file) {
  TestRun test;
  test.run.limits.max_steps = 1;
  test.start();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(test.run.run_dir) / "timeline"));
}

}  // namespace
}  // namespace mlbench::train::test
