#include "mlbench/report/collectives/charts.h"

#include <gmock/gmock.h>

#include "mlbench/report/collectives/test_collectives.h"
#include "mlbench/report/draw/gnuplot.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CollectivesResult sweep(const std::string& backend, int64_t workers, std::vector<std::string> types = {"float32"}) {
  std::vector<record::CollectiveRow> rows;
  for (const std::string& dtype : types) {
    for (const int64_t count : {0, 1, 100, 10000}) {
      record::CollectiveForm with_copy = make_form(1000, 1, 1);
      with_copy.copies = true;
      rows.push_back(make_row("all_reduce", count, dtype, with_copy,
                              make_form(static_cast<double>(10 + count * workers), 2, 2.5)));
    }
  }
  return make_result("r-" + backend, backend, workers, rows);
}

std::vector<std::string> ids_of(const std::vector<Chart>& charts) {
  std::vector<std::string> ids;
  for (const Chart& chart : charts) ids.push_back(chart.id);
  return ids;
}

std::vector<std::string> names_of(const Chart& chart) {
  std::vector<std::string> names;
  for (const ChartSeries& one : chart.series) names.push_back(one.name);
  return names;
}

TEST(CollectivesCharts, OneResult) {
  const std::vector<Chart> charts = collectives_charts({sweep("gloo", 4, {"float32", "float16"})});
  EXPECT_THAT(ids_of(charts), ElementsAre("all_reduce_sum_cpu_time", "all_reduce_sum_cpu_bandwidth"));
  const Chart& time = charts[0];
  EXPECT_EQ(time.title, "all_reduce (sum), cpu tensors, gloo, k = 4");
  EXPECT_TRUE(time.log_x && time.log_y && !time.from_zero);
  EXPECT_EQ(time.x_label, "elements");
  EXPECT_THAT(names_of(time), ElementsAre("float16", "float32"));
  ASSERT_EQ(time.series[1].points.size(), 3u) << "sizes of no bytes have no place on a logarithmic axis";
  EXPECT_EQ(time.series[1].points[1].x, 100);
  EXPECT_DOUBLE_EQ(time.series[1].points[1].y, 410) << "in place: the form without a copy";
  EXPECT_EQ(charts[1].x_label, "bytes");
  EXPECT_EQ(charts[1].series[1].points[1].x, 400);
  EXPECT_DOUBLE_EQ(charts[1].series[1].points[1].y, 2.5);
}

TEST(CollectivesCharts, WhatAReaderMustKnowStandsBesideTheLine) {
  std::vector<CollectivesResult> results = {sweep("gloo", 2), sweep("gloo", 4), sweep("gloo", 8)};
  results[1].oversubscribed = results[2].oversubscribed = true;
  results[2].comm_stack = "netem(ring(gloo))";
  EXPECT_THAT(names_of(collectives_charts({results[0], results[1]})[0]),
              ElementsAre("k = 2", "k = 4 (oversubscribed)"));
  EXPECT_THAT(names_of(collectives_charts({results[2]})[0]),
              ElementsAre("float32 (synthetic network, oversubscribed)"));
}

TEST(CollectivesCharts, ByBackEndAndByNumberOfRanks) {
  const std::vector<Chart> charts =
      collectives_charts({sweep("gloo", 2), sweep("gloo", 4), sweep("mpi", 2), sweep("mpi", 4), sweep("shm", 2)});
  EXPECT_THAT(ids_of(charts), ElementsAre("all_reduce_sum_cpu_time-k2", "all_reduce_sum_cpu_bandwidth-k2",
                                          "all_reduce_sum_cpu_time-k4", "all_reduce_sum_cpu_bandwidth-k4",
                                          "all_reduce_sum_cpu_time-1", "all_reduce_sum_cpu_bandwidth-1",
                                          "all_reduce_sum_cpu_time-2", "all_reduce_sum_cpu_bandwidth-2"));
  EXPECT_THAT(names_of(charts[0]), ElementsAre("gloo", "mpi", "shm"));
  EXPECT_THAT(names_of(charts[2]), ElementsAre("gloo", "mpi"));
  EXPECT_THAT(names_of(charts[4]), ElementsAre("k = 2", "k = 4"));
  EXPECT_EQ(charts[6].title, "all_reduce (sum), cpu tensors, mpi");
}

TEST(CollectivesCharts, CyclesOfASizeBecomeTheirMedian) {
  CollectivesResult result = make_result("r", "gloo", 2, {});
  for (const double time : {30.0, 10.0, 20.0}) {
    result.rows.push_back(make_row("all_gather", 8, "float32", make_form(time, 1, 1)));
  }
  const std::vector<Chart> charts = collectives_charts({result});
  ASSERT_EQ(charts[0].series[0].points.size(), 1u);
  EXPECT_DOUBLE_EQ(charts[0].series[0].points[0].y, 20);
  EXPECT_EQ(charts[0].title, "all_gather, cpu tensors, gloo, k = 2");
}

TEST(CollectivesCharts, ArchivesSayNoBackEnd) {
  const std::vector<Chart> alone = collectives_charts({sweep("", 2), sweep("", 4)});
  ASSERT_FALSE(alone.empty());
  EXPECT_EQ(alone[0].title, "all_reduce (sum), cpu tensors, unknown back end");
  EXPECT_THAT(names_of(alone[0]), ElementsAre("k = 2", "k = 4"));
  CollectivesResult other = sweep("", 2);
  other.name = "r-2";
  const std::vector<Chart> named = collectives_charts({sweep("", 2), other});
  EXPECT_THAT(names_of(named[0]), ElementsAre("r-", "r-2"));
}

TEST(CollectivesCharts, BarriersAndNothingGiveNone) {
  EXPECT_THAT(collectives_charts({make_result("r", "gloo", 2, {make_row("barrier", 0, "", make_form(5, 0, 0))})}),
              IsEmpty());
  EXPECT_THAT(collectives_charts({}), IsEmpty());
}

TEST(CollectivesCharts, AreDrawnOnLogarithmicAxes) {
  const Chart chart = collectives_charts({sweep("gloo", 2)})[0];
  EXPECT_THAT(gnuplot_script(chart, ImageFormat::kSvg), HasSubstr("set logscale x 10\nset logscale y 10\n"));
  EXPECT_THAT(chart_csv(chart), HasSubstr("elements,float32\n1,12\n100,210\n10000,20010\n"));
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  EXPECT_THAT(draw(chart, ImageFormat::kSvg), HasSubstr("</svg>"));
}

TEST(CollectivesCharts, AreAPartOfThePage) {
  Page page;
  page.prices = default_prices();
  page.worker = "n1-standard-4";
  page.studies.push_back(collectives_study(collectives_charts({sweep("gloo", 2)})));
  const std::string html = report_page(page);
  EXPECT_THAT(html, HasSubstr("\"title\":\"Collectives\",\"lines\":[]"));
  EXPECT_THAT(html, HasSubstr("\"log_x\":true,\"log_y\":true"));
}

}  // namespace
}  // namespace mlbench::report
