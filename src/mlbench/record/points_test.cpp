#include "mlbench/record/points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "mlbench/base/run_folder.h"
#include "mlbench/record/test_spool.h"
#include "mlbench/spec/split.h"

namespace mlbench::record {
namespace {

using testing::ElementsAre;

std::vector<int64_t> steps_of(const Points& points, const SeriesKey& key) {
  std::vector<int64_t> steps;
  const auto found = points.find(key);
  if (found == points.end()) return steps;
  for (const Point& point : found->second) steps.push_back(point.step);
  return steps;
}

TEST(Points, OfARecordAreMeansOverItsSteps) {
  StepRecord record;
  record.first_step = 10;
  record.count = 4;
  record.samples = 100;
  record.loss_sum = 50;
  record.lr = 0.25;
  record.end_ns = 3'000'000;
  record.bytes = 4000;
  record.kinds_ns[static_cast<size_t>(StepKind::kBackward)] = 1'000'000'000;
  record.kinds_ns[static_cast<size_t>(StepKind::kAggregate)] = 1'000'000'000;
  SpoolHeader header;
  header.rank = 3;
  header.start_wall_us = 7'000'000;
  Points points;
  add_points(points, record, header);
  std::map<std::string, double> values;
  for (const auto& [key, series] : points) {
    EXPECT_EQ(key.rank, 3);
    ASSERT_EQ(series.size(), 1U);
    EXPECT_EQ(series[0].step, 13);
    EXPECT_EQ(series[0].time_us, 7'003'000);
    values[key.split + " " + key.metric] = series[0].value;
  }
  const std::map<std::string, double> expected = {{"train loss", 0.5},  {" lr", 0.25},    {" samples_per_s", 50},
                                                  {" step_s", 0.5},     {" bytes", 1000}, {" agg_s", 0.25},
                                                  {" backprop_s", 0.25}};
  EXPECT_EQ(values, expected);
}

TEST(Points, OfUpdatesAreNormsOfGradientsAndChangesOfTheLossScale) {
  Points points;
  const SpoolHeader header;
  add_points(points, {{"event", "loss_scale"}, {"step", 3}, {"loss_scale", 512}, {"skipped_steps", 1}}, header);
  add_points(points, {{"event", "epoch"}, {"step", 5}, {"gradient_norm", 0.5}, {"clipped_steps", 2}}, header);
  add_points(points, {{"event", "end"}, {"step", 9}, {"loss_scale", 512}, {"skipped_steps", 1}}, header);
  EXPECT_EQ(points.size(), 2U);
  EXPECT_THAT(steps_of(points, {"", "loss_scale", kAllRanks}), ElementsAre(3));
  EXPECT_THAT(steps_of(points, {"", "gradient_norm", kAllRanks}), ElementsAre(5));
}

TEST(Points, OfEventsAreTheMetricsOfEpochsAndOfEvaluationsOnTestData) {
  Points points;
  const SpoolHeader header;
  add_points(points, {{"event", "epoch"}, {"step", 5}, {"metrics", {{"Prec@1", 60}, {"loss", 1}}}}, header);
  add_points(points, {{"event", "evaluation"}, {"split", "test"}, {"step", 5}, {"metrics", {{"loss", 0.5}}}}, header);
  add_points(points, {{"event", "evaluation"}, {"split", "train"}, {"step", 5}, {"metrics", {{"loss", 9}}}}, header);
  add_points(points, {{"event", "evaluation"}, {"split", "test"}, {"metrics", "none"}}, header);
  EXPECT_EQ(points.size(), 2U);
  EXPECT_EQ(points.at({"train", "Prec@1", kAllRanks})[0].value, 60);
  EXPECT_EQ(points.at({"test", "loss", kAllRanks})[0].value, 0.5);
}

TEST(Points, OfStepsThatWereDoneAgainAreThoseOfTheLaterSegment) {
  const TemporaryFolder folder;
  const auto evaluation = [](int64_t step) -> Json {
    return {{"event", "evaluation"}, {"split", "test"}, {"step", step}, {"metrics", {{"loss", step}}}};
  };
  write_spool(folder.path(), 1, 0, {step_record(0, 1, 5), step_record(1, 1, 5), step_record(2, 1, 5)},
              {evaluation(2), evaluation(3)});
  write_spool(folder.path(), 2, 0, {step_record(2, 1, 5), step_record(3, 1, 5)}, {evaluation(3), evaluation(4)});
  const Points points = read_points(folder.path(), 2, 0);
  EXPECT_THAT(steps_of(points, {"", "step_s", 0}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(steps_of(points, {"test", "loss", kAllRanks}), ElementsAre(2, 3, 4));
}

TEST(Points, OfWhatIsNoNumberAreNaN) {
  const TemporaryFolder folder;
  const Json metrics = {{"Perplexity", nullptr}};
  write_spool(folder.path(), 1, 0, {step_record(0, 1, 5)},
              {{{"event", "epoch"}, {"step", 1}, {"metrics", metrics}},
               {{"event", "evaluation"}, {"split", "test"}, {"step", 1}, {"metrics", metrics}}});
  const Points points = read_points(folder.path(), 1, 0);
  for (const char* split : {spec::kTrainSplit, spec::kTestSplit}) {
    ASSERT_EQ(steps_of(points, {split, "Perplexity", kAllRanks}).size(), 1U) << split;
    EXPECT_TRUE(std::isnan(points.at({split, "Perplexity", kAllRanks})[0].value)) << split;
  }
}

TEST(Points, OfCustomRunsAreTheValuesOfTheScript) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "metrics");
  std::ofstream(tracker_lines_path(folder.path(), 0))
      << R"({"sequence": 1, "time": 2.5, "step": 4, "epoch": 1, "values": {"val_global_Prec@1": 70}})"
      << "\n";
  const Points points = read_points(folder.path(), 1, 0);
  ASSERT_EQ(steps_of(points, {"test", "Prec@1", kAllRanks}).size(), 1U);
  const Point point = points.at({"test", "Prec@1", kAllRanks})[0];
  EXPECT_EQ(point.time_us, 2'500'000);
  EXPECT_EQ(point.step, 4);
  EXPECT_EQ(point.value, 70);
}

}  // namespace
}  // namespace mlbench::record
