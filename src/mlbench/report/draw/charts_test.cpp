#include "mlbench/report/draw/charts.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/draw/step_words.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;

class Charts : public testing::Test {
 protected:
  std::vector<Chart> charts() {
    std::vector<std::string> notes;
    const auto studies = make_studies(runs_, {0.36}, notes);
    return charts_of(studies.at(0), runs_, {"$", "a worker: 0.36 $/h"});
  }
  Chart chart(const std::string& id) {
    for (Chart& one : charts()) {
      if (one.id == id) return one;
    }
    return {};
  }
  static std::vector<double> values(const ChartSeries& series) {
    std::vector<double> y;
    for (const ChartPoint point : series.points) y.push_back(point.y);
    return y;
  }
  std::vector<MeasuredRun> runs_ = {{make_record("r-1", 1, 60, 3000, true), {{10, 0.9}, {60, 0.4}}, ""},
                                    {make_record("r-16", 16, 20, 9000, true), {{10, 0.8}}, ""},
                                    {make_record("r-2", 2, 40, 5000, true), {}, ""}};
};

TEST_F(Charts, AreAllThereAndInOrder) {
  std::vector<std::string> ids;
  for (const Chart& one : charts()) ids.push_back(one.id);
  EXPECT_THAT(ids, ElementsAre("total_time", "speedup", "compute_speedup", "throughput", "time_for_all_phases",
                               "train_loss", "communication_ratio", "communication_compute_ratio", "cost",
                               "price_index", "accuracy_epochs", "accuracy_time"));
}

TEST_F(Charts, SpeedUpHasItsBaselineAndTheLinearLine) {
  const Chart speed_up = chart("speedup");
  EXPECT_THAT(speed_up.ticks, ElementsAre("1", "2", "16"));
  EXPECT_EQ(speed_up.subtitle, "train clock, baseline r-1");
  ASSERT_EQ(speed_up.series.size(), 2U);
  EXPECT_THAT(values(speed_up.series[0]), ElementsAre(1, 1.5, 3));
  EXPECT_TRUE(speed_up.series[1].guide);
  EXPECT_THAT(values(speed_up.series[1]), ElementsAre(1, 2, 16));
}

TEST_F(Charts, WhatAReaderMustKnowStandsInEach) {
  for (MeasuredRun& run : runs_) run.record.oversubscribed = true;
  for (const Chart& one : charts()) EXPECT_THAT(one.labels, ElementsAre("light", "oversubscribed")) << one.id;
}

TEST_F(Charts, ThroughputHasALinearLineOfEachLinesOwn) {
  const Chart rates = chart("throughput");
  ASSERT_EQ(rates.series.size(), 2U);
  EXPECT_THAT(values(rates.series[0]), ElementsAre(3000, 5000, 9000));
  EXPECT_EQ(rates.series[1].name, "linear");
  EXPECT_TRUE(rates.series[1].guide);
  EXPECT_THAT(values(rates.series[1]), ElementsAre(3000, 6000, 48000));

  runs_.push_back({make_record("m-2", 2, 30, 6000, true), {}, ""});
  runs_.back().record.backend = "mpi";
  const Chart two = chart("throughput");
  ASSERT_EQ(two.series.size(), 4U);
  EXPECT_EQ(two.series[3].name, "linear, mpi");
  EXPECT_THAT(values(two.series[3]), ElementsAre(6000));
}

TEST_F(Charts, CommunicationOverComputation) {
  EXPECT_THAT(values(chart("communication_compute_ratio").series[0]), ElementsAre(15 / 32.5, 10 / 32.5, 5 / 32.5));
}

TEST_F(Charts, WaitAndTransferStandInPlaceOfAgg) {
  record::Exchange& exchange = runs_[2].record.exchange.emplace();
  exchange.wait_s = {6, 0};
  exchange.transfer_s = {3, 3};
  exchange.exact = true;
  const auto stacked = [&] {
    std::map<std::string, std::vector<double>> parts;
    for (const ChartSeries& series : chart("time_for_all_phases").series) parts[series.name] = values(series);
    return parts;
  };
  auto parts = stacked();
  EXPECT_THAT(parts["communication"], ElementsAre(15, 1, 5));  // wait and transfer are not known for k = 1 and 16
  EXPECT_THAT(parts["waiting"], ElementsAre(0, 6, 0));
  EXPECT_THAT(parts["transfer"], ElementsAre(0, 3, 0));
  runs_[2].record.exchange->exact = false;
  parts = stacked();
  EXPECT_THAT(parts["waiting (at least)"], ElementsAre(0, 6, 0));
  EXPECT_THAT(parts["transfer (at most)"], ElementsAre(0, 3, 0));
  runs_[2].record.exchange->wait_s = {60, 0};  // longer than agg, so not a part of it
  parts = stacked();
  EXPECT_THAT(parts["communication"], ElementsAre(15, 10, 5));
  EXPECT_FALSE(parts.contains("waiting (at least)"));
}

TEST_F(Charts, HiddenCommunicationHasAChartAndTheExposedIsAPartOfAgg) {
  const auto ids = [&] {
    std::vector<std::string> names;
    for (const Chart& one : charts()) names.push_back(one.id);
    return names;
  };
  EXPECT_THAT(ids(), testing::Not(testing::Contains("communication_hidden")));
  record::Exchange& exchange = runs_[2].record.exchange.emplace();
  exchange.wait_s = {6, 0};
  exchange.transfer_s = {3, 3};
  exchange.exposed_s = {4, 1};
  exchange.hidden_s = {5, 2};
  std::map<std::string, std::vector<double>> parts;
  for (const ChartSeries& series : chart("time_for_all_phases").series) parts[series.name] = values(series);
  EXPECT_THAT(parts["communication"], ElementsAre(15, 6, 5));
  EXPECT_THAT(parts["exposed communication"], ElementsAre(0, 4, 0));
  EXPECT_FALSE(parts.contains("waiting (at least)"));
  const Chart hidden = chart("communication_hidden");
  EXPECT_THAT(values(hidden.series[0]), ElementsAre(0, 4, 0));
  EXPECT_THAT(values(hidden.series[1]), ElementsAre(0, 5, 0));
}

TEST_F(Charts, StepKindsAreStackedAndEmptyOnesLeftOut) {
  const Chart kinds = chart("time_for_all_phases");
  EXPECT_EQ(kinds.kind, ChartKind::kStackedBars);
  std::vector<std::string> names;
  for (const ChartSeries& series : kinds.series) names.push_back(series.name);
  EXPECT_THAT(names, ElementsAre("loading", "forward", "backward", "communication", "optimizer", "metrics"));
  EXPECT_THAT(values(kinds.series[3]), ElementsAre(15, 10, 5));
}

// Whatever kinds occur, each has its colour.
TEST_F(Charts, AStepKindHasOneColourInAllCharts) {
  const auto colours = [&] {
    std::map<std::string, std::optional<size_t>> found;
    for (const ChartSeries& series : chart("time_for_all_phases").series) found[series.name] = series.colour;
    return found;
  };
  const auto before = colours();
  EXPECT_EQ(before.at("communication"), colour_of_word("communication"));
  for (MeasuredRun& run : runs_)
    std::erase_if(run.record.steps_s, [](const auto& one) { return one.first == "batch_load"; });
  auto after = colours();
  EXPECT_EQ(after.count("loading"), 0U);
  for (const auto& [word, colour] : after) EXPECT_EQ(colour, before.at(word)) << word;
  const std::string script = gnuplot_script(chart("time_for_all_phases"), ImageFormat::kSvg);
  EXPECT_THAT(script, testing::HasSubstr("using 2 title $text[6][2:*] lc rgb '#009E73'")) << "forward comes first now";
  EXPECT_THAT(script, testing::HasSubstr("set key invert")) << "the legend is in the order of the bars";
}

TEST_F(Charts, SeveralStudiesStandInOneFigure) {
  runs_.push_back({make_record("m-1", 1, 30, 3000, true), {}, ""});
  runs_.push_back({make_record("m-2", 2, 10, 9000, true), {}, ""});
  for (size_t i = 3; i < 5; ++i) runs_[i].record.task = "mnist";
  std::vector<std::string> notes;
  const auto studies = make_studies(runs_, {0.36}, notes);
  ASSERT_EQ(studies.size(), 2U);
  const std::vector<Chart> together = charts_of_all(studies, runs_, {"$", ""});
  std::vector<std::string> ids;
  for (const Chart& one : together) ids.push_back(one.id);
  EXPECT_THAT(ids, ElementsAre("speedup", "compute_speedup", "communication_ratio", "communication_compute_ratio",
                               "price_index"));
  const Chart& speed_up = together.front();
  EXPECT_EQ(speed_up.title, "fashion-mnist, mnist: Speed-up, total");
  ASSERT_EQ(speed_up.series.size(), 3U);
  EXPECT_EQ(speed_up.series[0].name, "fashion-mnist");
  EXPECT_EQ(speed_up.series[1].name, "mnist");
  EXPECT_THAT(values(speed_up.series[0]), ElementsAre(1, 1.5, 3));
  EXPECT_THAT(values(speed_up.series[1]), ElementsAre(1, 3)) << "against its own baseline";
  EXPECT_TRUE(charts_of_all({studies[0]}, runs_, {"$", ""}).empty());
}

TEST_F(Charts, LossHasTheTargetLine) {
  EXPECT_EQ(chart("train_loss").series.size(), 2U);
  for (MeasuredRun& run : runs_) run.record.goal->target_loss = 0.2828;
  const Chart loss = chart("train_loss");
  ASSERT_EQ(loss.series.size(), 3U);
  EXPECT_EQ(loss.series[0].name, "k = 1");
  EXPECT_EQ(loss.series[2].name, "target 0.2828");
  EXPECT_THAT(values(loss.series[2]), ElementsAre(0.2828, 0.2828));
  EXPECT_EQ(loss.series[2].points[1].x, 60);
}

TEST_F(Charts, AccuracyHasTheGoalLine) {
  const Chart epochs = chart("accuracy_epochs"), time = chart("accuracy_time");
  ASSERT_EQ(epochs.series.size(), 4U);
  EXPECT_EQ(epochs.series[3].name, "goal 85");
  EXPECT_EQ(epochs.series[0].points[1].x, 1.25);
  EXPECT_EQ(time.series[0].points[1].x, 60);
  EXPECT_EQ(time.series[1].name, "k = 2");
}

TEST_F(Charts, WhatALimitBroughtAboutIsRinged) {
  runs_[0].record.evaluations[1].cadence = false;
  const Chart epochs = chart("accuracy_epochs");
  ASSERT_EQ(epochs.series.size(), 5U);
  EXPECT_EQ(epochs.series[0].points.size(), 2U) << "it stays in the curve";
  const ChartSeries& rings = epochs.series[3];
  EXPECT_TRUE(rings.rings);
  EXPECT_EQ(rings.name, "at a limit: meets no goal");
  ASSERT_EQ(rings.points.size(), 1U);
  EXPECT_EQ(rings.points[0].x, 1.25);
  EXPECT_EQ(rings.points[0].y, 85.25);
  EXPECT_THAT(gnuplot_script(epochs, ImageFormat::kSvg), testing::HasSubstr("$data3 using 1:2 with points pt 6"));
}

TEST_F(Charts, WhatIsNoNumberIsAGapAndNothingElseIsNoCurve) {
  std::vector<record::Evaluation>& evaluations = runs_[0].record.evaluations;
  evaluations[1].metrics = {{"Prec@1", NAN}};
  evaluations[1].cadence = false;
  const Chart gap = chart("accuracy_epochs");
  ASSERT_EQ(gap.series.size(), 4U) << "a ring has a number";
  ASSERT_EQ(gap.series[0].points.size(), 2U);
  EXPECT_TRUE(std::isnan(gap.series[0].points[1].y));
  evaluations[0].metrics = {{"Prec@1", NAN}};
  EXPECT_EQ(chart("accuracy_epochs").series.size(), 3U);
}

// On the wall clock, without the half second in which data were prepared.
TEST_F(Charts, CostIsThatOfAllWorkers) {
  EXPECT_EQ(chart("cost").subtitle, "a worker: 0.36 $/h");
  EXPECT_THAT(values(chart("cost").series[0]),
              ElementsAre(testing::DoubleEq(0.00645), testing::DoubleEq(0.0089), testing::DoubleEq(0.0392)));
}

TEST_F(Charts, WithoutAPointThereIsNoChart) {
  runs_ = {{make_record("r-1", 1, 60, 3000, false), {}, ""}};
  runs_[0].record.goal.reset();
  runs_[0].record.division = "throughput";
  std::vector<std::string> ids;
  for (const Chart& one : charts()) ids.push_back(one.id);
  EXPECT_THAT(ids, testing::Not(testing::Contains("accuracy_time")));
  EXPECT_THAT(ids, testing::Not(testing::Contains("train_loss")));
  EXPECT_THAT(ids, testing::Contains("time_for_all_phases"));
}

// Two repeats of 40 and 20 s: with the baseline's 60 s they are 1.5 and 3 times as fast.
TEST_F(Charts, BarsAreLeastAndMostOfTheRepeats) {
  runs_.push_back(runs_[2]);
  runs_.back().record.name = "r-2.2";
  runs_.back().record.goal->train_s = 20;
  const auto bars_of = [&](const char* id) {
    const ChartPoint point = chart(id).series[0].points[1];
    return std::pair(point.low.value(), point.high.value());
  };
  EXPECT_EQ(bars_of("total_time"), std::pair(20.0, 40.0));
  EXPECT_NEAR(bars_of("speedup").first, 1.5, 1e-12);
  EXPECT_NEAR(bars_of("speedup").second, 3, 1e-12);
  EXPECT_FALSE(chart("total_time").series[0].points[0].low) << "one run has none";
  EXPECT_THAT(chart_csv(chart("total_time")), testing::HasSubstr("torch, gloo, least"));
}

TEST(ChartCsv, QuotesAndDisarms) {
  Chart chart{.id = "c",
              .title = "",
              .subtitle = "",
              .x_label = "workers",
              .y_label = "",
              .labels = {},
              .ticks = {"1", "4"},
              .series = {{"=cmd()", {{0, 1.5}}, false}, {"a \"b\", c", {{0, 2}, {1, 3}}, false}}};
  EXPECT_EQ(chart_csv(chart), "workers,'=cmd(),\"a \"\"b\"\", c\"\n1,1.5,2\n4,,3\n");
  chart.series[0].name =
      "\xE2\x80\xAE"
      "fdp.exe";
  EXPECT_THAT(chart_csv(chart), testing::StartsWith("workers,\\u202efdp.exe,"));
}

}  // namespace
}  // namespace mlbench::report
