#include "mlbench/train/profile_report.h"

#include <gmock/gmock.h>

#include "mlbench/train/train_test.h"

namespace mlbench::train::test {
namespace {

using testing::IsEmpty;

std::vector<RankOutcome> profiled(const std::string& profile, int64_t steps, int64_t workers = 1) {
  TestRun test(workers);
  test.run.profile = profile;
  test.run.limits.max_steps = steps;
  test.run.threads_per_worker = 2;
  return test.start();
}

// The report on the framework's one operation, with these figures.
Json operation(const Json& forward_s, const Json& forward_flops, const Json& bytes) {
  return {{"name", "fc"},
          {"implementation", "known"},
          {"forward_s", forward_s},
          {"backward_s", nullptr},
          {"forward_floor_s", nullptr},
          {"backward_floor_s", nullptr},
          {"forward_flops", forward_flops},
          {"backward_flops", nullptr},
          {"bytes", bytes}};
}

TEST(ProfileReport, off_leaves_the_framework_alone) {
  const RankOutcome rank = profiled("off", 6)[0];
  EXPECT_FALSE(rank.profiled_from.has_value());
  EXPECT_THAT(events_named(rank.spool, "operations"), IsEmpty());
}

TEST(ProfileReport, explain_names_the_operations_and_measures_nothing) {
  const RankOutcome rank = profiled("explain", 6)[0];
  EXPECT_FALSE(rank.profiled_from.has_value());
  const auto events = events_named(rank.spool, "operations");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["step"], 6);
  EXPECT_EQ(events[0]["operations"], Json::array({operation(nullptr, nullptr, nullptr)}));
}

// Steps 3, 4 and 5 count, with 4, 4 and 2 samples for 2 threads: 5/3 of a sample per step and thread.
TEST(ProfileReport, time_is_the_mean_of_the_steps_behind_the_warm_up) {
  const RankOutcome rank = profiled("time", 6)[0];
  EXPECT_EQ(rank.profiled_from, 3);
  const auto events = events_named(rank.spool, "operations");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["operations"], Json::array({operation(0.25, 20.0, 13)}));
  // The profile was switched on within the train clock.
  const record::Clocks clocks = record::derive_clocks({rank.spool});
  EXPECT_EQ(clocks.kinds_ns[static_cast<size_t>(record::StepKind::kBatchLoad)],
            std::chrono::nanoseconds(kProfile).count());
}

TEST(ProfileReport, nothing_is_told_of_a_run_that_ends_within_the_warm_up) {
  const RankOutcome rank = profiled("time", 3)[0];
  EXPECT_FALSE(rank.profiled_from.has_value());
  EXPECT_THAT(events_named(rank.spool, "operations"), IsEmpty());
}

TEST(ProfileReport, all_ranks_profile_and_the_first_one_tells) {
  const auto ranks = profiled("time", 6, 2);
  EXPECT_EQ(ranks[1].profiled_from, 3);
  EXPECT_EQ(events_named(ranks[0].spool, "operations").size(), 1U);
  EXPECT_THAT(events_named(ranks[1].spool, "operations"), IsEmpty());
}

}  // namespace
}  // namespace mlbench::train::test
