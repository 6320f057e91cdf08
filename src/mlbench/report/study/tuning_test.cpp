#include "mlbench/report/study/tuning.h"

#include <gmock/gmock.h>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// `steps` to the target at 100 samples per step.
record::Record run_of(const std::string& name, int64_t steps, double step_s, bool reached = true) {
  RecordJson record = make_record(name, 1, 30, 100, reached);
  record["goal"]["step"] = steps;
  record["throughput"]["steps"] = 2 * steps;
  record["throughput"]["samples"] = 200 * steps;
  record["throughput"]["median_samples_per_s"] = 100 / step_s;
  return record;
}

TuneTrial trial_of(int64_t number, const std::string& lr, std::vector<record::Record> records) {
  return {
      .study = 0, .trial = number, .settings = {{"optimizer.lr", lr}}, .records = std::move(records), .refused = {}};
}

std::vector<std::string> remarks(const Tuning& tuning) {
  std::vector<std::string> words;
  for (const TuneRow& row : tuning.rows) words.push_back(row.remark);
  return words;
}

TEST(Tuning, TheWinnerIsByStepsTimesMedianStepTime) {
  std::vector<TuneTrial> trials = {trial_of(0, "0.1", {run_of("t.t1-1", 500, 0.01)}),
                                   trial_of(1, "1", {run_of("t.t2-1", 300, 0.01)}),
                                   trial_of(2, "10", {run_of("t.t3-1", 100, 0.05, false)})};
  const Tuning tuning = analyse_tuning(trials);
  ASSERT_TRUE(tuning.winner);
  EXPECT_EQ(*tuning.winner, 1U);
  EXPECT_DOUBLE_EQ(*tuning.rows[1].target_s, 3);
  EXPECT_THAT(remarks(tuning), ElementsAre("", "winner", "missed"));
  EXPECT_THAT(text_of(tuning),
              AllOf(HasSubstr("optimizer.lr=1"), HasSubstr("winner: optimizer.lr=1 (trial 2 of 3; one")));
  EXPECT_EQ(winner_file(tuning, trials, "mlbench tune\nevil=1"),
            "# mlbench tune\\nevil=1\n# Prec@1 85 in 300 steps of 0.01 s, the best of 3 trials\noptimizer.lr=1\n"
            "schedule.tuned_trials=3\n");
  const Chart chart = chart_of(tuning, trials, "optimizer.lr");
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_EQ(chart.series[0].points.size(), 2U);
  EXPECT_EQ(to_json(tuning)["winner"], 2);
}

// Repeats tell which points differ: the first of those that do not differ from the fastest wins.
TEST(Tuning, TiesGoToThePointThatWasTriedFirst) {
  const auto repeats = [](int64_t a, int64_t b, int64_t c) {
    return std::vector{run_of("r-1", a, 0.01), run_of("r-1.2", b, 0.01), run_of("r-1.3", c, 0.01)};
  };
  const Tuning tuning =
      analyse_tuning({trial_of(0, "0.1", repeats(900, 905, 910)), trial_of(1, "1", repeats(300, 330, 310)),
                      trial_of(2, "2", repeats(298, 328, 308)),
                      trial_of(3, "3", {run_of("r-1", 200, 0.01), run_of("r-1.2", 1, 1, false)})});
  EXPECT_THAT(remarks(tuning), ElementsAre("", "winner", "as good as the winner", "missed"));
  EXPECT_EQ(*tuning.winner, 1U);
  EXPECT_THAT(text_of(tuning), HasSubstr("3 repeats"));
}

TEST(Tuning, WithoutATargetReachedThereIsNoWinner) {
  std::vector<TuneTrial> trials = {trial_of(0, "1", {run_of("t-1", 5, 0.1, false)}), trial_of(1, "2", {})};
  trials.push_back(trial_of(2, "3", {}));
  trials.back().refused = "no such key";
  const Tuning tuning = analyse_tuning(trials);
  EXPECT_FALSE(tuning.winner);
  EXPECT_THAT(remarks(tuning), ElementsAre("missed", "not run", "no such key"));
  EXPECT_THAT(text_of(tuning), HasSubstr("no winner"));
  EXPECT_THAT(csv_of(tuning), HasSubstr("study,trial,settings,runs,steps"));
}

}  // namespace
}  // namespace mlbench::report
