#include "mlbench/report/study/sweep.h"

#include <gmock/gmock.h>

#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/study/test_comparisons.h"

namespace mlbench::report {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;

// A finished run whose worker spends these parts of its train clock, in percent; it waits for others `waiting` of them.
RecordJson swept_record(const std::string& name, int64_t workers, double samples_per_s, double compute, double exchange,
                        double waiting, double input) {
  RecordJson record = told_record(name, workers);
  record["task"] = "mnist";
  record["clocks"]["train_s"] = 100.0;
  record["throughput"]["samples_per_s"] = samples_per_s;
  record["steps_s"] = {{"batch_load", input},     {"init", 0.0},     {"fwd_pass", compute / 2}, {"comp_loss", 0.0},
                       {"backprop", compute / 4}, {"agg", exchange}, {"opt_step", compute / 4}, {"comp_metrics", 0.0}};
  record["exchange"] = {{"exact", true}, {"wait_s", {waiting}}, {"transfer_s", {exchange - waiting}}};
  return record;
}

SweepAnswer answer_of(const SweepRequest& request, std::vector<record::Record> records) {
  return {.request = request, .records = std::move(records)};
}

SweepAnswer setting_answer(const SweepSetting& setting, double samples_per_s) {
  const std::string name = "s." + short_name(setting) + "-" + std::to_string(setting.procs_per_node);
  return answer_of({.setting = setting}, {swept_record(name, setting.procs_per_node, samples_per_s, 90, 5, 1, 5)});
}

RecordJson failed_record(const std::string& name) {
  RecordJson record = swept_record(name, 2, 9e9, 90, 5, 1, 5);
  record["state"] = "failed";
  record["failure"] = {{"message", "rank 1 ended with code 7"}};
  return record;
}

// 1, 2 and 8 nodes of one process: 1000, 1900 and 4000 samples/s.
std::vector<SweepAnswer> three_nodes() {
  std::vector<SweepAnswer> answers;
  answers.push_back(answer_of({{}, 1, true}, {swept_record("s.n1-1", 1, 1000, 90, 0, 0, 10)}));
  answers.push_back(answer_of({{}, 2, true}, {swept_record("s.n2-2", 2, 1900, 85, 5, 1, 10)}));
  answers.push_back(answer_of({{}, 8, true}, {swept_record("s.n8-8", 8, 4000, 50, 40, 10, 5)}));
  return answers;
}

TEST(Sweep, SettingsAreEachCombinationOnce) {
  std::vector<std::string> names;
  for (const SweepSetting& one : settings_of({1, 2}, {1, 2, 1}, {1})) names.push_back(short_name(one));
  EXPECT_THAT(names, ElementsAre("p1t1i1", "p1t2i1", "p2t1i1", "p2t2i1"));
  EXPECT_EQ((SweepRequest{{4, 1, 1}, 8, true}).workers(), 32);
}

TEST(Sweep, TheBestSettingHasTheHighestThroughput) {
  const Sweep sweep = analyse_sweep({setting_answer({1, 2, 1}, 1500), setting_answer({2, 1, 1}, 1800),
                                     setting_answer({2, 2, 1}, 1800), setting_answer({4, 1, 1}, 1700)},
                                    {});
  ASSERT_TRUE(sweep.best);
  EXPECT_EQ(*sweep.best, 1U) << "of equal ones the first";
  EXPECT_THAT(findings_of(sweep).at(0),
              "best setting of one node: 2 processes per node, 1 thread intra-op, 1 inter-op (1,800 samples/s)");
}

TEST(Sweep, AFailedSettingIsShownAndNeverTheBest) {
  SweepAnswer half = setting_answer({2, 1, 1}, 5000);  // one of two repeats has finished
  half.records.push_back(failed_record("s.p2t1i1-2.2"));
  const SweepAnswer refused{.request = {.setting = {4, 1, 1}}, .refused = "no such host"};
  const Sweep sweep = analyse_sweep({half, setting_answer({1, 1, 1}, 1000), refused}, {});
  ASSERT_TRUE(sweep.best);
  EXPECT_EQ(*sweep.best, 1U);
  EXPECT_EQ(sweep.settings[0].state, "failed");
  EXPECT_EQ(sweep.settings[0].samples_per_s, 5000) << "of what has finished";
  EXPECT_EQ(sweep.settings[2].why, "no such host");
  const std::string text = written(sections_of(sweep));
  EXPECT_THAT(text, AllOf(HasSubstr("failed (s.p2t1i1-2.2 failed: rank 1 ended with code 7)"),
                          HasSubstr("failed (no such host)")));
  const Sweep none = analyse_sweep({refused}, {});
  EXPECT_FALSE(none.best);
  EXPECT_THAT(findings_of(none), ElementsAre("best setting of one node: none has finished"));
}

// 1900 / 1000 = 1.9 over 2 times the workers: 95 %. 4000 / 1000 = 4 over 8 times: 50 %.
TEST(Sweep, EfficienciesAreThoseComputedByHand) {
  const Sweep sweep = analyse_sweep({}, three_nodes());
  EXPECT_DOUBLE_EQ(sweep.nodes[0].efficiency.value(), 1);
  EXPECT_DOUBLE_EQ(sweep.nodes[1].speed_up.value(), 1.9);
  EXPECT_DOUBLE_EQ(sweep.nodes[1].efficiency.value(), 0.95);
  EXPECT_DOUBLE_EQ(sweep.nodes[2].efficiency.value(), 0.5);
  EXPECT_FALSE(sweep.nodes[2].crowded);
}

TEST(Sweep, ThroughputIsTheMedianOfTheRepeats) {
  std::vector<SweepAnswer> answers = three_nodes();
  answers[1].records = {swept_record("s.n2-2", 2, 1500, 90, 5, 1, 5), swept_record("s.n2-2.2", 2, 1600, 90, 5, 1, 5),
                        swept_record("s.n2-2.3", 2, 1900, 90, 5, 1, 5)};
  const SweepPoint point = analyse_sweep({}, answers).nodes.at(1);
  EXPECT_EQ(point.samples_per_s, 1600);
  EXPECT_EQ(point.least, 1500);
  EXPECT_EQ(point.most, 1900);
  EXPECT_DOUBLE_EQ(point.efficiency.value(), 0.8);
  EXPECT_THAT(point.runs, SizeIs(3));
}

// One worker's second per sample is 1 ms at 1 node and 8 / 4000 = 2 ms at 8. There compute is 1 ms (0.9 before),
// waiting 0.2 (0), communication 0.6 (0), input 0.1 (0.1), other 0.1 (0): of the 1 ms that is lost 60 % is exchange.
TEST(Sweep, TheBottleneckIsWhatGrewMost) {
  const Sweep sweep = analyse_sweep({}, three_nodes());
  const TimeParts& parts = sweep.nodes[2].time.value().seconds;
  EXPECT_NEAR(total_of(parts), 2e-3, 1e-12);
  EXPECT_NEAR(parts[static_cast<size_t>(TimePart::kCompute)], 1e-3, 1e-12);
  EXPECT_NEAR(parts[static_cast<size_t>(TimePart::kWaiting)], 0.2e-3, 1e-12);
  EXPECT_NEAR(parts[static_cast<size_t>(TimePart::kCommunication)], 0.6e-3, 1e-12);
  EXPECT_NEAR(parts[static_cast<size_t>(TimePart::kInput)], 0.1e-3, 1e-12);
  EXPECT_NEAR(parts[static_cast<size_t>(TimePart::kOther)], 0.1e-3, 1e-12);
  const Bottleneck& found = sweep.nodes[2].bottleneck.value();
  EXPECT_EQ(found.part, TimePart::kCommunication);
  EXPECT_NEAR(found.share, 0.6, 1e-9);
  EXPECT_THAT(found.text, HasSubstr("exchange that no computation hides, 60 % of the lost efficiency"));
  EXPECT_EQ(sweep.nodes[0].bottleneck->part, TimePart::kCompute) << "alone: the largest part";
  EXPECT_NEAR(sweep.nodes[0].bottleneck->share, 0.9, 1e-9);
  EXPECT_THAT(
      findings_of(sweep),
      Contains(HasSubstr("scaling efficiency at 8 nodes: 50 %; bottleneck: exchange that no computation hides")));
}

TEST(Sweep, HiddenCommunicationIsNoWaiting) {
  RecordJson record = swept_record("s-2", 2, 1000, 60, 40, 30, 0);
  record["exchange"]["hidden_s"] = {20.0};
  const TimeParts parts = time_per_sample(record).value().seconds;
  EXPECT_EQ(parts[static_cast<size_t>(TimePart::kWaiting)], 0);
  EXPECT_NEAR(parts[static_cast<size_t>(TimePart::kCommunication)], 0.4 * 2 / 1000, 1e-12);
  record["clocks"].erase("train_s");
  EXPECT_FALSE(time_per_sample(record)) << "a figure that does not exist is no zero";
}

TEST(Sweep, OneHostIsNoCluster) {
  std::vector<SweepAnswer> answers = three_nodes();
  answers[2].records[0].oversubscribed = true;
  const Sweep sweep = analyse_sweep({}, answers);
  EXPECT_THAT(sweep.nodes[0].labels, Not(Contains("ranks on one host")));
  EXPECT_THAT(sweep.nodes[2].labels, AllOf(Contains("ranks on one host"), Contains("oversubscribed")));
  EXPECT_TRUE(sweep.nodes[2].crowded);
  EXPECT_DOUBLE_EQ(sweep.nodes[2].efficiency.value(), 0.5);
  EXPECT_THAT(written(sections_of(sweep)), HasSubstr("(50 %)"));
  for (const Chart& chart : charts_of(sweep)) {
    if (chart.x_label != "nodes") continue;
    EXPECT_THAT(chart.labels, IsSupersetOf({"ranks on one host", "oversubscribed"}));
  }
  EXPECT_THAT(sweep.notes, Contains(HasSubstr("stood on one host")));
  EXPECT_THAT(sweep.notes, Contains(HasSubstr("in brackets")));
}

TEST(Sweep, TorchAloneHasNoUseForInterOpThreads) {
  std::vector<SweepAnswer> answers = {setting_answer({1, 1, 2}, 1000)};
  record::Record& record = answers[0].records[0];
  record.framework = "torch";
  EXPECT_THAT(analyse_sweep(answers, {}).notes, Contains(HasSubstr("launches no operation on that pool")));
  record.framework = "tensorflow";
  EXPECT_THAT(analyse_sweep(answers, {}).notes, Not(Contains(HasSubstr("launches no operation on that pool"))));
}

TEST(Sweep, WhatDiffersInMoreThanWorkersHasNoEfficiency) {
  std::vector<SweepAnswer> answers = three_nodes();
  answers[2].records[0].backend = answers[2].records[0].comm_stack = "mpi";
  const Sweep sweep = analyse_sweep({}, answers);
  EXPECT_FALSE(sweep.nodes[2].efficiency);
  EXPECT_THAT(sweep.nodes[2].no_efficiency, HasSubstr("backend"));
  EXPECT_TRUE(sweep.nodes[1].efficiency);
}

TEST(Sweep, AccuraciesStandSideBySide) {
  std::vector<SweepAnswer> answers = three_nodes();
  for (SweepAnswer& answer : answers) {
    answer.records[0].goal->best.emplace().value = 99.1;
  }
  SweepAnswer unscaled = answers[2];
  unscaled.request.lr_scaling = false;
  unscaled.records[0].overrides = {spec::Override{"schedule.scaling", "none"}};
  unscaled.records[0].goal->best->value = 97.5;
  answers.push_back(unscaled);
  const Sweep sweep = analyse_sweep({}, answers);
  EXPECT_EQ(sweep.metric, "Prec@1");
  EXPECT_EQ(sweep.nodes[2].accuracy, 85.25) << "of the last evaluation";
  const Section accuracy = sections_of(sweep).at(2);
  EXPECT_EQ(accuracy.title, "Prec@1 on test data");
  EXPECT_THAT(accuracy.table->rows(), ElementsAre(ElementsAre("1", "1", "85.25", "99.10", "-", "-"),
                                                  ElementsAre("2", "2", "85.25", "99.10", "-", "-"),
                                                  ElementsAre("8", "8", "85.25", "99.10", "85.25", "97.50")));
  EXPECT_THAT(findings_of(sweep), Contains("best Prec@1 at 8 nodes: 99.10, lr scaling on"));
}

TEST(Sweep, IsWrittenInEveryForm) {
  std::vector<SweepAnswer> answers = three_nodes();
  answers[2].refused = "a | b\nc";
  answers[2].timeline = "ranks waited 2 s for each other";
  const Sweep sweep = analyse_sweep({setting_answer({1, 1, 1}, 1000)}, answers);
  EXPECT_THAT(written(sections_of(sweep), {TableFormat::kMarkdown}),
              AllOf(HasSubstr("\n| nodes | workers | lr scaling | samples/s |"),
                    HasSubstr("| 8 | 8 | on | 4,000 | 4.00 |"), HasSubstr("a \\| b"), Not(HasSubstr("b\nc"))));
  const std::string csv = csv_of(sweep);
  EXPECT_THAT(csv, AllOf(HasSubstr("\nsetting,1,1,1,1,1,on,finished,1000,,,"),
                         HasSubstr("\nnodes,1,1,1,2,2,on,finished,1900,1.9,0.95,")));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  const Json json = to_json(sweep);
  EXPECT_EQ(json["best"]["procs_per_node"], 1);
  EXPECT_EQ(json["nodes"][2]["efficiency"], 0.5);
  EXPECT_EQ(json["nodes"][2]["bottleneck"]["part"], "communication");
  EXPECT_EQ(json["nodes"][2]["state"], "failed");
  EXPECT_EQ(json["settings"][0]["efficiency"], nullptr);
  EXPECT_THAT(findings_of(sweep), Contains("timeline of s.n8-8: ranks waited 2 s for each other"));
}

TEST(Sweep, ChartsAreOverNodes) {
  const Sweep sweep = analyse_sweep({setting_answer({1, 1, 1}, 1000)}, three_nodes());
  std::vector<std::string> ids;
  for (const Chart& chart : charts_of(sweep)) ids.push_back(chart.id);
  EXPECT_THAT(ids,
              ElementsAre("sweep_settings", "sweep_throughput", "sweep_efficiency", "sweep_time", "sweep_accuracy"));
  const Chart throughput = charts_of(sweep)[1];
  EXPECT_THAT(throughput.ticks, ElementsAre("1", "2", "8"));
  ASSERT_THAT(throughput.series, SizeIs(2));
  EXPECT_EQ(throughput.series[0].points[2].y, 4000);
  EXPECT_TRUE(throughput.series[1].guide);
  EXPECT_EQ(throughput.series[1].points[2].y, 8000);
  EXPECT_THAT(gnuplot_script(throughput, ImageFormat::kSvg), HasSubstr("Throughput over nodes"));
  EXPECT_THAT(charts_of(analyse_sweep({}, {})), IsEmpty());
}

TEST(Sweep, StepsAreATable) {
  const std::vector<SweepSteps> steps = {{1, 1, 100, 1e-4, 600, 24000}, {8, 16, 1600, 1.6e-3, 38, 1520}};
  EXPECT_THAT(written({section_of(steps)}), AllOf(HasSubstr("24,000"), HasSubstr("0.0016"), HasSubstr("1,520")));
  EXPECT_EQ(to_json(steps)[1]["global_batch"], 1600);
}

}  // namespace
}  // namespace mlbench::report
