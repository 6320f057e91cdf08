#include "mlbench/report/study/answer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::Contains;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

// A run that reached Prec@1 >= 85 after `train_s`, of which it computed `compute_s` and exchanged `agg_s`.
MeasuredRun goal_run(const std::string& name, int64_t workers, double train_s, double compute_s, double agg_s,
                     double epochs) {
  RecordJson record = make_record(name, workers, train_s, 0, true);
  record["steps_s"] = {{"fwd_pass", compute_s}, {"agg", agg_s}};
  record["exchange"] = {{"exact", true}, {"wait_s", {agg_s / 2}}, {"transfer_s", {agg_s / 2}}};
  record["goal"]["epoch"] = epochs;
  return {record, {}, ""};
}

const StudyLine& line_of(const std::vector<MeasuredRun>& runs) {
  static std::vector<Study> studies;
  std::vector<std::string> notes;
  studies = make_studies(runs, {0.36, BilledClock::kTrain}, notes);
  return studies.at(0).lines.at(0);
}

// 100, 60 and 50 s of 1, 2 and 4 workers: 1.67 and 2 times as fast at 1.2 and 2 times the cost; gains of 67 and 20 %.
// 100 of 4 x 50 = 200 worker-seconds are lost: a fourth epoch of 4 costs 33.3, compute takes 4 x 27.5 - 4/3 x 90 = -10,
// waiting and transfer 4 x 10 each, and the rest 4 x 2.5 - 4/3 x 10 = -3.3.
TEST(Answer, IsInSentences) {
  const StudyLine& line = line_of(
      {goal_run("r-1", 1, 100, 90, 0, 3), goal_run("r-2", 2, 60, 46, 8, 3), goal_run("r-4", 4, 50, 27.5, 20, 4)});
  EXPECT_EQ(line.knee, 2);
  EXPECT_THAT(line.answer,
              ElementsAre("4 workers reach Prec@1 >= 85 on test data 2.00 times as fast as 1, at 2.00 times the cost.",
                          "2 workers reach Prec@1 >= 85 on test data 1.67 times as fast as 1, at 1.20 times the cost.",
                          "From 2 to 4 workers the gain is 20 %.",
                          "The most workers that gain at least 25 % over the count before are 2.",
                          "At 4 workers 50 % of the efficiency is lost. What limits it most: waiting for the slowest "
                          "rank, 40 % of the lost efficiency.",
                          "Single runs have no interval: --repeat 4 tells whether a difference is real.",
                          "Labels of these runs: light."));
  const LostEfficiency& lost = line.points[2].lost.value();
  EXPECT_NEAR(lost.more_work, 1.0 / 3, 1e-12);
  EXPECT_THAT(lost.shares, ElementsAre(DoubleNear(-0.1, 1e-12), DoubleEq(0.4), DoubleEq(0.4), DoubleEq(0),
                                       DoubleNear(-1.0 / 30, 1e-12)));
}

// Logarithms of the times of 1 worker are 0.1 apart from their mean, as are those of 2: the interval of the ratio 2 is
// 2 e^(-+ 4.3027 sqrt(0.01 + 0.01)), with Student's t of 2 degrees of freedom.
TEST(Answer, HasTheIntervalOfRepeats) {
  const double up = std::exp(0.1), down = std::exp(-0.1);
  const StudyLine& line = line_of({goal_run("r-1", 1, 100 * up, 90, 0, 3), goal_run("r-1.2", 1, 100 * down, 90, 0, 3),
                                   goal_run("r-2", 2, 50 * up, 45, 0, 3), goal_run("r-2.2", 2, 50 * down, 45, 0, 3)});
  const StudyPoint& two = line.points.at(1);
  EXPECT_NEAR(two.seconds.value(), 50, 1e-9);
  EXPECT_NEAR(two.speed_up.value(), 2, 1e-9);
  const RatioEstimate estimate = ratio_of({100 * up, 100 * down}, {50 * up, 50 * down}).value();
  EXPECT_DOUBLE_EQ(two.speed_up_interval.value().low, estimate.interval.value().low);
  EXPECT_THAT(
      line.answer,
      Contains(fmt::format("2 workers reach Prec@1 >= 85 on test data 2.00 times as fast as 1 ({:.2f} to {:.2f}), at "
                           "1.00 times the cost.",
                           estimate.interval->low, estimate.interval->high)));
  EXPECT_EQ(line.knee, estimate.interval->low >= 1.25 ? std::optional<int64_t>(2) : std::nullopt)
      << "the lower end counts";
}

TEST(Answer, SaysWhichRunIsMissing) {
  EXPECT_THAT(line_of({goal_run("r-1", 1, 100, 90, 0, 3)}).answer,
              ElementsAre("Only 1 worker has a time: run another worker count of the same task to compare."));
  MeasuredRun missed = goal_run("r-1", 1, 100, 90, 0, 3);
  missed.record.goal->reached = false;
  EXPECT_THAT(line_of({missed, goal_run("r-2", 2, 60, 46, 8, 3)}).answer,
              ElementsAre("No answer: its smallest worker count did not reach the goal. Run 1 worker until all repeats "
                          "reach the goal."));
  MeasuredRun late = goal_run("r-4", 4, 100, 90, 0, 3);
  late.record.goal->reached = false;
  EXPECT_THAT(line_of({goal_run("r-1", 1, 100, 90, 0, 3), goal_run("r-2", 2, 60, 46, 8, 3), late}).answer,
              Contains("1 of 1 runs of 4 workers missed the goal: its time needs runs that reach it."));
}

TEST(Answer, WithoutAGoalIsAboutSamples) {
  std::vector<MeasuredRun> runs;
  for (const auto& [workers, rate] : {std::pair(1, 1000.0), std::pair(2, 1900.0)}) {
    RecordJson record = make_record("p-" + std::to_string(workers), workers, 100, rate, false);
    record["goal"] = nullptr;
    runs.push_back({record, {}, ""});
  }
  const StudyLine& line = line_of(runs);
  EXPECT_THAT(line.answer, Contains(HasSubstr("2 workers process samples 1.90 times as fast as 1")));
  EXPECT_THAT(line.answer, Contains("Time to the goal is not known: no run reached one."));
}

}  // namespace
}  // namespace mlbench::report
