#include "mlbench/report/study/study.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/report/draw/charts.h"
#include "mlbench/report/test_records.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

struct Published {
  int64_t workers;
  double total, compute, communication;
};

// A run to its goal with these clocks; all of the compute stands in fwd_pass.
MeasuredRun published(const std::string& name, const Published& figures, const std::string& backend = "nccl") {
  RecordJson record = make_record(name, figures.workers, figures.total, 0, true);
  record["backend"] = backend;
  record["steps_s"] = {{"fwd_pass", figures.compute}, {"agg", figures.communication}};
  return {record, {}, ""};
}

record::Exchange exchange_of(const std::vector<double>& wait_s, double transfer_s, bool exact) {
  record::Exchange exchange;
  exchange.wait_s = wait_s;
  exchange.transfer_s.assign(wait_s.size(), transfer_s);
  exchange.exact = exact;
  return exchange;
}

std::vector<Study> studies_of(const std::vector<MeasuredRun>& runs, double worker_per_hour = 0.5592) {
  std::vector<std::string> notes;
  return make_studies(runs, {worker_per_hour, BilledClock::kTrain}, notes);
}

double rounded(std::optional<double> value, double scale) { return std::round(value.value_or(NAN) * scale) / scale; }

// GNMT to BLEU 24 and the Transformer to BLEU 25 with NCCL on T4 (MLBench's archives of PyTorch 1.7.0), whose summary
// says "2.8x" and "3.0x" at 16 workers.
TEST(Study, ReproducesThePublishedTranslationRuns) {
  const auto gnmt =
      studies_of({published("g-1", {1, 65'207, 64'570, 0}), published("g-2", {2, 37'504, 30'701, 6'314}),
                  published("g-4", {4, 28'848, 16'241, 12'107}), published("g-8", {8, 24'819, 7'981, 16'354}),
                  published("g-16", {16, 23'526, 4'184, 18'870})});
  ASSERT_EQ(gnmt.size(), 1U);
  const StudyLine& line = gnmt[0].lines.at(0);
  EXPECT_EQ(rounded(line.points[4].speed_up, 10), 2.8);
  EXPECT_EQ(rounded(line.points[4].compute_speed_up, 10), 15.4);
  EXPECT_EQ(rounded(line.points[4].communication_share, 100), 0.8);
  EXPECT_EQ(rounded(line.points[2].cost, 10), 17.9);  // "~18 $" on 4 workers
  EXPECT_EQ(rounded(line.points[0].cost, 10), 10.1);  // "~10 $" on one
  // "After 8 workers, communication takes up more than 50 % of total time."
  EXPECT_LT(*line.points[2].communication_share, 0.5);
  EXPECT_GT(*line.points[3].communication_share, 0.5);
  EXPECT_EQ(line.baseline, "g-1");

  const auto transformer =
      studies_of({published("t-1", {1, 37'594, 37'253, 0}), published("t-16", {16, 12'729, 2'021, 10'470})});
  EXPECT_EQ(rounded(transformer[0].lines[0].points[1].speed_up, 10), 3.0);
  EXPECT_EQ(rounded(transformer[0].lines[0].points[1].compute_speed_up, 10), 18.4);
}

// CIFAR-10 to 80 % on T4: one run of one worker stands for three back ends; the best of 16 workers is Gloo's, 6.6x.
TEST(Study, BackEndsAreLinesOfTheirOwn) {
  const auto studies = studies_of(
      {published("n-1", {1, 171.15, 94.1, 20.9}, "nccl"), published("n-16", {16, 30.16, 9.8, 19.0}, "nccl"),
       published("o-1", {1, 171.15, 94.1, 20.9}, "gloo"), published("o-16", {16, 25.92, 8.1, 16.8}, "gloo")});
  ASSERT_EQ(studies.size(), 1U);
  ASSERT_EQ(studies[0].lines.size(), 2U);
  EXPECT_EQ(studies[0].lines[0].name, "gloo");
  EXPECT_EQ(rounded(studies[0].lines[0].points[1].speed_up, 10), 6.6);
  EXPECT_EQ(studies[0].lines[1].name, "nccl");
  EXPECT_EQ(rounded(studies[0].lines[1].points[1].speed_up, 100), 5.67);
}

// Logistic regression to 89 % on CPUs (March 2020): its times are no smooth curve, and not every k is there.
TEST(Study, TakesAnyListOfWorkers) {
  const auto studies = studies_of({published("e-32", {32, 8.4, 1.6, 6.8}), published("e-16", {16, 8.4, 2.4, 6.0}),
                                   published("e-2", {2, 40.2, 23.5, 16.0}), published("e-6", {6, 33.8, 14.0, 19.4})});
  const StudyLine& line = studies[0].lines[0];
  EXPECT_EQ(line.baseline, "e-2");  // the smallest there is, by number: 16 is not before 2
  EXPECT_DOUBLE_EQ(*line.points[3].speed_up, 40.2 / 8.4);
  EXPECT_DOUBLE_EQ(*line.points[3].efficiency, 40.2 / 8.4 / 16);
  EXPECT_THAT(studies[0].notes, Contains("Baseline of torch, nccl: e-2 (2 workers)"));
}

// Price index = price increase / performance increase: 4 workers at 2.56x, 8 workers at 4.36x (tasks 4a and 4b).
TEST(Study, PriceIndex) {
  const auto gnmt = studies_of({published("g-1", {1, 74'163, 1, 0}), published("g-4", {4, 28'970, 1, 0})});
  const StudyPoint& four = gnmt[0].lines[0].points[1];
  EXPECT_EQ(rounded(four.speed_up, 100), 2.56);
  EXPECT_EQ(rounded(four.cost, 10), 18.0);
  EXPECT_EQ(rounded(four.price_index, 100), 0.61);
  const auto transformer = studies_of({published("t-1", {1, 32'630, 1, 0}), published("t-8", {8, 7'484, 1, 0})});
  const StudyPoint& eight = transformer[0].lines[0].points[1];
  EXPECT_EQ(rounded(eight.speed_up, 100), 4.36);
  EXPECT_EQ(rounded(eight.cost, 10), 9.3);
  EXPECT_EQ(rounded(eight.price_index, 100), 0.42);
}

TEST(Study, WithoutAGoalItComparesThroughput) {
  std::vector<MeasuredRun> runs;
  for (const auto& [workers, rate] :
       {std::pair(1, 220.0), std::pair(2, 436.0), std::pair(4, 764.0), std::pair(8, 1408.0)}) {
    RecordJson record = make_record("p-" + std::to_string(workers), workers, 100, rate, false);
    record["division"] = "throughput";
    record["goal"] = nullptr;
    record["throughput"]["samples"] = std::llround(rate * 100);
    runs.push_back({record, {}, ""});
  }
  const auto studies = studies_of(runs);
  ASSERT_EQ(studies.size(), 1U);
  EXPECT_FALSE(studies[0].to_goal);
  std::vector<long> percent;
  for (const StudyPoint& point : studies[0].lines[0].points) percent.push_back(std::lround(*point.efficiency * 100));
  EXPECT_THAT(percent, ElementsAre(100, 99, 87, 80));
  EXPECT_NEAR(*studies[0].lines[0].points[0].seconds, 1000 / 220.0, 1e-9);
  EXPECT_NEAR(*studies[0].lines[0].points[0].cost, 1e6 / 220 / 3600 * 0.5592, 1e-9);
}

// A machine is rented from the launch on: 70 and 45 s where the train clock says 60 and 40. The first run prepared the
// data, for 900 s, which is no part of what training costs.
TEST(Study, CostIsOnTheClockThatIsBilled) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 0}), published("r-2", {2, 40, 25, 10})};
  runs[0].record.evaluations[1].wall_s = 970;
  runs[0].record.clocks.prepare_s = 900;
  runs[1].record.clocks.prepare_s = 0;
  std::vector<std::string> notes;
  const auto points = [&](BilledClock clock) { return make_studies(runs, {0.36, clock}, notes)[0].lines[0].points; };
  const auto wall = points(BilledClock::kWall), train = points(BilledClock::kTrain);
  EXPECT_DOUBLE_EQ(*wall[0].cost, 0.0070);
  EXPECT_DOUBLE_EQ(*wall[1].cost, 0.0090);
  EXPECT_DOUBLE_EQ(*wall[1].price_index, (90.0 / 70) / (70.0 / 45));
  EXPECT_DOUBLE_EQ(*train[1].cost, 0.0080);
  EXPECT_DOUBLE_EQ(*train[1].price_index, (80.0 / 60) / (60.0 / 40));
  EXPECT_EQ(wall[1].speed_up, train[1].speed_up);

  runs[1].record.limits.to_the_end = true;  // when its goal was met on the wall clock is not on record
  const Study study = make_studies(runs, {0.36}, notes)[0];
  EXPECT_FALSE(study.lines[0].points[1].cost);
  EXPECT_FALSE(study.lines[0].points[1].price_index);
  EXPECT_TRUE(study.lines[0].points[1].speed_up);
  EXPECT_THAT(study.notes, Contains("r-2: no wall clock up to the goal is on record, so k = 2 has no cost"));
  EXPECT_THAT(study.notes, Contains("Cost and price index are on the wall clock without the preparation of data, all "
                                    "else on the train clock"));
}

// Twice the workers need three times the steps to the goal, and go on to the same end, on which they spend half.
TEST(Study, OfRunsToTheEndTheStepsUpToTheGoalCount) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 10, 80, 0}), published("r-2", {2, 30, 40, 20})};
  for (MeasuredRun& run : runs) {
    run.record.limits.to_the_end = true;
    run.record.clocks.train_s = 100;
  }
  runs[0].record.goal->steps_s = record::NamedNumbers{{"fwd_pass", 8.0}, {"agg", 0.0}};
  runs[1].record.goal->steps_s = record::NamedNumbers{{"fwd_pass", 12.0}, {"agg", 6.0}};
  runs[1].record.exchange = exchange_of({15, 1}, 5, true);
  runs[1].record.goal->exchange = exchange_of({4, 1}, 2, true);
  const Study study = studies_of(runs)[0];
  const StudyPoint &one = study.lines[0].points[0], &two = study.lines[0].points[1];
  EXPECT_DOUBLE_EQ(*two.speed_up, 1.0 / 3);
  EXPECT_DOUBLE_EQ(*two.compute_speed_up, 8.0 / 12);
  EXPECT_EQ(one.kinds_s[static_cast<size_t>(record::StepKind::kForward)], 8);
  EXPECT_EQ(two.kinds_s[static_cast<size_t>(record::StepKind::kAggregate)], 6);
  EXPECT_EQ(two.wait_s, 4);
  EXPECT_DOUBLE_EQ(*two.communication_share, 0.2) << "a share is of the whole run";
  for (const Chart& chart : charts_of(study, runs, {})) {
    if (chart.id != "time_for_all_phases") continue;
    double bar = 0;
    for (const ChartSeries& series : chart.series) bar += series.points.at(1).y;
    EXPECT_LE(bar, 30) << "T of k = 2";
  }

  // A record without the sums up to its goal has no such figures.
  runs[1].record.goal->steps_s.reset();
  const Study without = studies_of(runs)[0];
  EXPECT_TRUE(without.lines[0].points[1].speed_up);
  EXPECT_FALSE(without.lines[0].points[1].compute_speed_up);
  EXPECT_FALSE(without.lines[0].points[1].kinds_s[static_cast<size_t>(record::StepKind::kForward)]);
  EXPECT_THAT(without.notes,
              Contains("r-2: what its steps took up to the goal is not on record, so k = 2 has no bars"));
}

// The repeat with the median time to the goal is drawn, not the one with the median whole time. A run that missed the
// goal has no bar beside bars of times to the goal.
TEST(Study, OfRunsToTheEndTheMedianTimeToTheGoalIsShown) {
  std::vector<MeasuredRun> runs = {published("r-2", {2, 40, 25, 10}), published("r-2.2", {2, 20, 24, 5}),
                                   published("r-2.3", {2, 30, 26, 6})};
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].record.limits.to_the_end = true;
    runs[i].record.clocks.train_s = 100 + static_cast<double>(i);
    runs[i].record.goal->steps_s = runs[i].record.steps_s;
  }
  EXPECT_EQ(studies_of(runs)[0].lines[0].points[0].shown, 2U);
  for (MeasuredRun& run : runs) run.record.goal->reached = &run == &runs[0];
  const StudyPoint point = studies_of(runs)[0].lines[0].points[0];
  EXPECT_EQ(point.shown, 1U);
  EXPECT_FALSE(point.kinds_s[static_cast<size_t>(record::StepKind::kForward)]);
}

TEST(Study, WaitAndTransferAreMediansOfRank0) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 0}), published("r-2", {2, 40, 25, 10}),
                                   published("r-2.2", {2, 50, 25, 10}), published("r-2.3", {2, 100, 25, 10})};
  runs[1].record.exchange = exchange_of({4, 0}, 2, true);
  runs[2].record.exchange = exchange_of({6, 0}, 3, true);
  runs[3].record.exchange = exchange_of({7, 0}, 1, true);
  const auto points = studies_of(runs)[0].lines[0].points;
  EXPECT_FALSE(points[0].wait_share);
  EXPECT_DOUBLE_EQ(*points[1].wait_share, 0.1);
  EXPECT_DOUBLE_EQ(*points[1].transfer_share, 0.05);
  EXPECT_EQ(points[1].wait_s, 6);
  EXPECT_EQ(points[1].transfer_s, 3);
  EXPECT_TRUE(points[1].exchange_exact);
  EXPECT_THAT(written({section_of(studies_of(runs)[0], "$")}), HasSubstr("20 %      10 %       5 %"));
  runs[3].record.exchange = exchange_of({7, 0}, 1, false);
  EXPECT_THAT(written({section_of(studies_of(runs)[0], "$")}), HasSubstr("20 %   >= 10 %    <= 5 %"));
}

TEST(Study, HiddenCommunicationHasAColumnWhereThereIsSome) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 0}), published("r-2", {2, 40, 25, 10})};
  runs[1].record.exchange = exchange_of({8, 1}, 6, false);
  runs[1].record.exchange->exposed_s = {9, 2};
  runs[1].record.exchange->hidden_s = {5, 5};
  const auto studies = studies_of(runs);
  const StudyPoint& point = studies[0].lines[0].points[1];
  EXPECT_EQ(point.hidden_share, 5.0 / 40);
  EXPECT_EQ(point.hidden_s, 5);
  EXPECT_EQ(point.exposed_s, 9);
  EXPECT_TRUE(point.hides());
  EXPECT_THAT(written({section_of(studies[0], "$")}), HasSubstr(">= 20 %   <= 15 %      12 %"));
  runs[1].record.exchange->hidden_s = {0, 0};
  EXPECT_THAT(written({section_of(studies_of(runs)[0], "$")}), testing::Not(HasSubstr("hidden")));
}

// The cube root of 40 x 20 x 30 is 28.845, that of 25 x 24 x 26 is 24.987.
TEST(Study, RepeatsGiveTheirMeanAndTheMedianRunIsShown) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 0}), published("r-2", {2, 40, 25, 10}),
                                   published("r-2.2", {2, 20, 24, 5}), published("r-2.3", {2, 30, 26, 6})};
  const auto studies = studies_of(runs);
  const StudyPoint& two = studies[0].lines[0].points[1];
  EXPECT_NEAR(two.seconds.value(), std::cbrt(24'000), 1e-12);
  EXPECT_EQ(two.least_s, 20);
  EXPECT_EQ(two.most_s, 40);
  EXPECT_EQ(two.shown, 3U);
  EXPECT_NEAR(two.speed_up.value(), 60 / std::cbrt(24'000), 1e-12);
  EXPECT_NEAR(two.compute_s.value(), std::cbrt(15'600), 1e-12);
  EXPECT_EQ(two.kinds_s[static_cast<size_t>(record::StepKind::kAggregate)], 6);
}

TEST(Study, ARepeatThatMissedTheGoalLeavesNoTime) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 0}), published("r-2", {2, 40, 25, 10}),
                                   published("r-2.2", {2, 20, 24, 5})};
  runs[2].record.goal->reached = false;
  const auto studies = studies_of(runs);
  EXPECT_FALSE(studies[0].lines[0].points[1].seconds);
  EXPECT_FALSE(studies[0].lines[0].points[1].speed_up);
  EXPECT_EQ(studies[0].lines[0].points[1].reached, 1);
  EXPECT_THAT(studies[0].notes, Contains(HasSubstr("r-2, r-2.2: 1 of 2 did not reach the goal")));
}

TEST(Study, ABaselineThatMissedTheGoalIsNone) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 0}), published("r-2", {2, 40, 25, 10})};
  runs[0].record.goal->reached = false;
  const auto studies = studies_of(runs);
  EXPECT_FALSE(studies[0].lines[0].points[1].speed_up);
  EXPECT_TRUE(studies[0].lines[0].points[1].seconds);
  EXPECT_THAT(studies[0].notes, Contains(HasSubstr("none, its smallest worker count did not reach the goal")));
}

TEST(Study, TasksRulesGoalsAndOverridesAreKeptApart) {
  std::vector<MeasuredRun> runs = {published("a-1", {1, 60, 50, 0}), published("b-1", {1, 60, 50, 0}),
                                   published("c-1", {1, 60, 50, 0}), published("d-1", {1, 60, 50, 0})};
  runs[1].record.task = "mnist";
  runs[2].record.goal->target = 91.5;
  runs[3].record.overrides = {spec::Override{"optimizer.lr", "0.1"}};
  runs[3].record.division = "open";
  const auto studies = studies_of(runs);
  ASSERT_EQ(studies.size(), 4U);
  const auto overridden = std::find_if(studies.begin(), studies.end(),
                                       [](const Study& s) { return s.title.ends_with("(optimizer.lr=0.1, open)"); });
  ASSERT_NE(overridden, studies.end()) << "one title, so it says what differs";
  EXPECT_THAT(overridden->notes, Contains("open: d-1"));
}

TEST(Study, WhatDidNotEndWellIsLeftOutWithANote) {
  std::vector<MeasuredRun> runs = {
      published("a-1", {1, 60, 50, 0}), published("b-1", {1, 60, 50, 0}), {record::Record(), {}, ""}};
  runs[1].record.state = "failed";
  std::vector<std::string> notes;
  EXPECT_EQ(make_studies(runs, {1}, notes).size(), 1U);
  EXPECT_THAT(notes, ElementsAre("run 'b-1' is left out: it is failed", "run '' is left out: it is of unknown state"));
}

TEST(Study, RunsThatSharedTheirHostHaveNoTimes) {
  std::vector<MeasuredRun> runs = {published("a-1", {1, 60, 50, 0}), published("a-2", {2, 40, 50, 0})};
  runs[1].record.shared_host = true;
  std::vector<std::string> notes;
  const std::vector<Study> studies = make_studies(runs, {1}, notes);
  ASSERT_EQ(studies.size(), 1U);
  EXPECT_EQ(studies[0].lines.at(0).points.size(), 1U);
  EXPECT_THAT(notes, ElementsAre(testing::HasSubstr("run 'a-2' is left out: other runs were on its host")));
}

// Rules of 2018 for task 2a: the rate is alpha / sqrt(t), alpha tuned for each k.
TEST(Study, ShowsAlphaWhereTheRulesHaveOne) {
  const auto frozen = spec::find_task("2a", "2018", "", {});
  std::vector<MeasuredRun> runs = {published("e-1", {1, 60, 50, 0}), published("e-16", {16, 40, 25, 10})};
  for (MeasuredRun& run : runs) {
    run.record.task = "2a";
    run.record.rules = "2018";
    run.record.task_hash = frozen.hash;
    run.record.goal->target_loss = 0.2828;
  }
  const auto studies = studies_of(runs);
  EXPECT_EQ(studies[0].lines[0].points[0].alpha, 200);
  EXPECT_EQ(studies[0].lines[0].points[1].alpha, 800);
  EXPECT_EQ(studies[0].target_loss, 0.2828);
  EXPECT_THAT(written({section_of(studies[0], "$")}), HasSubstr("alpha"));
}

TEST(Study, TableAndJson) {
  std::vector<MeasuredRun> runs = {published("r-1", {1, 60, 50, 1}), published("r-2", {2, 40, 25, 10})};
  const auto studies = studies_of(runs, 0.36);
  EXPECT_EQ(
      written({section_of(studies[0], "$")}),
      "fashion-mnist, goal Prec@1 >= 85 on test data\n"
      "2 workers reach Prec@1 >= 85 on test data 1.50 times as fast as 1, at 1.33 times the cost.\n"
      "The most workers that gain at least 25 % over the count before are 2.\n"
      "At 2 workers 25 % of the efficiency is lost. What limits it most: exchange that no computation hides, at most "
      "95 % of the lost efficiency.\n"
      "Single runs have no interval: --repeat 4 tells whether a difference is real.\n"
      "Labels of these runs: light.\n"
      "\n"
      "line         k  runs  time to goal  speed-up  speed-up  efficiency     comm.   waiting  transfer      comm."
      "   cost  price\n"
      "                                 s     total   compute              of train  of train  of train  / compute"
      "      $  index\n"
      "torch, nccl  1     1          60.0      1.00      1.00       100 %       2 %         -         -       0.02"
      "  0.006   1.00\n"
      "torch, nccl  2     1          40.0      1.50      2.00        75 %      25 %         -         -       0.40"
      "  0.008   0.89\n"
      "  light: r-1, r-2\n"
      "  Baseline of torch, nccl: r-1 (1 worker)\n"
      "  All figures are on the train clock\n");
  const Json json = to_json(studies[0], runs);
  EXPECT_EQ(json["lines"][0]["baseline"], "r-1");
  EXPECT_EQ(json["lines"][0]["points"][1]["runs"], Json({"r-2"}));
  EXPECT_EQ(json["lines"][0]["points"][1]["speed_up"], 1.5);
  EXPECT_EQ(json["lines"][0]["points"][1]["steps_s"]["opt_step"], nullptr);
}

TEST(Study, NamesReachNoTerminalAsEscapeSequences) {
  std::vector<MeasuredRun> runs = {published("\x1b[2J-1", {1, 60, 50, 1})};
  runs[0].record.task = "\x1b]0;x";
  EXPECT_EQ(written({section_of(studies_of(runs)[0], "$")}).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace mlbench::report
