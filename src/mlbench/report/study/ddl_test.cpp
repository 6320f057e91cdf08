#include "mlbench/report/study/ddl.h"

#include <gmock/gmock.h>

#include "mlbench/base/files.h"
#include "mlbench/report/study/test_comparisons.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;
using testing::SizeIs;

auto near(double value) { return Optional(testing::DoubleNear(value, 1e-12)); }

// A finished run of 100 steps of 0.1 s, of which it waits for data and exchanges, and computes for the rest.
RecordJson ddl_record(const std::string& name, int64_t workers, double samples_per_s, double waits, double exchanges) {
  RecordJson record = told_record(name, workers);
  record["task"] = "1b-resnet50";
  record["clocks"]["train_s"] = 10.0;
  record["throughput"] = {{"samples_per_s", samples_per_s}, {"samples", 3200}, {"steps", 100}};
  record["steps_s"] = {{"batch_load", waits}, {"fwd_pass", 3.0},
                       {"comp_loss", 0.0},    {"backprop", 7.0 - waits - exchanges},
                       {"agg", exchanges},    {"opt_step", 0.0}};
  record["evaluations"] = Json::array();
  return record;
}

record::Record ddl_run(const std::string& name, int64_t workers, double samples_per_s, double waits, double exchanges) {
  return ddl_record(name, workers, samples_per_s, waits, exchanges);
}

// A run that computes nothing, and reads 3.2 MB in each step.
record::Record loading_run() {
  RecordJson record = ddl_record("i-1", 1, 320, 9, 0);
  record["storage"] = {{"kind", "local"}, {"call_read_bytes", 320'000'000}};
  return record;
}

// One worker that decodes too slowly: its steps wait 6 of 10 s.
DdlAnswer decoding_answer() {
  DdlAnswer answer{.point = {.input = "/data", .variant = "b32"}};
  answer.records = {ddl_run("d-1", 1, 320, 6, 0)};
  answer.compute = ddl_run("c-1", 1, 800, 0, 6);  // computes for 4 of its 10 s
  answer.input = loading_run();
  answer.read_by_one_per_s = answer.read_by_all_per_s = 320e6;
  answer.waiting_steps = {0.98, 0};
  return answer;
}

TEST(Ddl, NamesTheStageWithItsNumbers) {
  const DdlRow row = analyse_ddl({decoding_answer()}).rows.at(0);
  EXPECT_THAT(row.alone, ElementsAre(near(0.01), near(0.09), near(0.04), near(0)));
  EXPECT_EQ(row.verdict.text, "decode: alone 90 % of the step, 2.25 times compute");
  EXPECT_EQ(row.state, "finished");
  EXPECT_DOUBLE_EQ(row.utilisation.value(), 0.4);
}

TEST(Ddl, ReadingOfAllWorkersSharesThePlace) {
  DdlAnswer four = decoding_answer();
  four.point.workers = 4;
  four.exchange = ddl_run("e-4", 4, 320, 0, 2);
  four.read_by_all_per_s = 160e6;
  const DdlRow row = analyse_ddl({four}).rows.at(0);
  EXPECT_THAT(row.alone, ElementsAre(near(0.08), near(0.09), near(0.04), near(0.02)));
}

// Rank 0 exchanges for 6 of its 10 s, but most of that it waits for rank 1, which waits for data.
TEST(Ddl, TheRankThatWaitedMostCounts) {
  DdlAnswer two = decoding_answer();
  two.point.workers = 2;
  two.exchange = ddl_run("e-2", 2, 320, 0, 1);
  RecordJson record = ddl_record("d-2", 2, 640, 0.2, 6);
  two.records = {record};
  EXPECT_THAT(analyse_ddl({two}).rows.at(0).verdict.text, HasSubstr("balanced: the slowest is decode"))
      << "a record of an earlier program has rank 0's waiting alone";
  record["waited_for_data_s"] = {0.2, 6.0};
  two.records = {record};
  two.waiting_steps = {0.97, 1};
  const Ddl ddl = analyse_ddl({two});
  EXPECT_EQ(ddl.rows.at(0).verdict.text, "decode: alone 90 % of the step, 2.25 times compute");
  EXPECT_THAT(ddl.rows.at(0).step.waited_for_data_s, near(0.06));
  EXPECT_THAT(written(sections_of(ddl)), HasSubstr("rank 1 waited most"));
  EXPECT_EQ(to_json(ddl)["rows"][0]["waiting_rank"], 1);
}

TEST(Ddl, WhatWasNotMeasuredIsNotKnown) {
  DdlAnswer answer = decoding_answer();
  answer.read_by_one_per_s = std::nullopt;
  EXPECT_EQ(analyse_ddl({answer}).rows.at(0).verdict.text, "not known: decode was not measured alone");
  answer.input = std::nullopt;
  EXPECT_EQ(analyse_ddl({answer}).rows.at(0).verdict.text, "not known: read was not measured alone");
  const DdlRow none = analyse_ddl({{.point = {}, .refused = "no such network"}}).rows.at(0);
  EXPECT_EQ(none.state, "failed");
  EXPECT_EQ(none.why, "no such network");
  EXPECT_EQ(none.no_efficiency, "nothing was measured");
}

// The rates of document 004 over its two networks: 424 of 2 x 220 and 436 of 2 x 220.
TEST(Ddl, EfficiencyIsWithinALine) {
  std::vector<DdlAnswer> answers;
  for (const auto& [network, rate] : {std::pair("bandwidth=1Gbit", 424.0), std::pair(kRealNetwork, 436.0)}) {
    for (const int64_t workers : {2, 1}) {
      DdlAnswer answer{.point = {.network = network, .workers = workers}};
      answer.records = {ddl_run("r-" + std::to_string(workers), workers, workers == 1 ? 220 : rate, 0, 1)};
      answers.push_back(answer);
    }
  }
  const Ddl ddl = analyse_ddl(answers);
  EXPECT_NEAR(ddl.rows[0].efficiency.value(), 0.964, 0.001);
  EXPECT_NEAR(ddl.rows[2].efficiency.value(), 0.991, 0.001);
  EXPECT_DOUBLE_EQ(ddl.rows[3].efficiency.value(), 1);
  const std::vector<Chart> charts = charts_of(ddl);
  ASSERT_THAT(charts, SizeIs(2)) << "nothing is known of steps that waited";
  EXPECT_THAT(charts[0].series, SizeIs(2));
  EXPECT_THAT(charts[0].ticks, ElementsAre("1", "2"));
  EXPECT_EQ(charts[0].series[0].points[1].y, 424);
}

TEST(Ddl, TablesHaveASectionForEachInput) {
  DdlAnswer synthetic;
  synthetic.records = {ddl_run("s-1", 1, 900, 0, 0)};
  DdlAnswer accurate = decoding_answer();
  RecordJson record = ddl_record("d-1", 1, 320, 6, 0);
  record["evaluations"] = Json::array({{{"split", "test"}, {"metrics", {{"Prec@1", 73.18}, {"Prec@5", 91.07}}}},
                                       {{"split", "test"}, {"cadence", false}, {"metrics", {{"Prec@1", 1.0}}}}});
  accurate.records = {record};
  const Ddl ddl = analyse_ddl({synthetic, accurate});
  const std::string text = written(sections_of(ddl));
  EXPECT_THAT(text, HasSubstr("Synthetic data"));
  EXPECT_THAT(text, HasSubstr("Data from /data"));
  EXPECT_THAT(text, HasSubstr("91.07"));
  EXPECT_THAT(text, HasSubstr("98 %"));
  EXPECT_THAT(csv_of(ddl), HasSubstr("\n/data,real,b32,1,finished,,320,1,,0.98,0,"));
  const Json json = to_json(ddl);
  EXPECT_EQ(json["rows"][1]["bottleneck"]["stage"], "decode");
  EXPECT_EQ(json["rows"][1]["metrics"]["Prec@1"], 73.18);
  EXPECT_EQ(json["rows"][0]["waiting_steps"], nullptr);
}

TEST(Ddl, TheFormTakesWhatRecordsDoNotTellFromNotes) {
  RunNotes notes;
  notes.cluster = "blue";
  RecordJson record = ddl_record("d-1", 1, 320, 6, 0);
  record["storage"] = {{"kind", "s3"}, {"endpoint", "https://store"}, {"objects", 1024}};
  record["hosts"] = Json::array({{{"name", "n1"}, {"addresses", {"10.0.0.1"}}, {"cores", 8}}});
  const std::string text = written({section_of(experiment_form({record, record}, notes))});
  for (const char* part : {"blue", "s3 at https://store", "1024 objects", "n1 10.0.0.1", "n1, 8 cores", "1b-resnet50",
                           "d-1 320 samples/s"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, testing::ContainsRegex("firewall +not known"));
}

TEST(Ddl, StepsThatWaitedAreCounted) {
  const TemporaryFolder folder;
  EXPECT_FALSE(waiting_steps_of(folder.path(), 3, 1));
  const auto kLoad = static_cast<size_t>(record::StepKind::kBatchLoad);
  for (const auto& [rank, first] : {std::pair(0, 3U), std::pair(1, 1U), std::pair(2, 1U)}) {
    start_spool(folder.path(), 1, rank);
    for (uint64_t step = 0; step < 4; ++step) {
      record::StepRecord record = make_step(step, 1, 0, 0.5, 100, static_cast<int64_t>(step + 1) * 200);
      record.kinds_ns[kLoad] = step >= first ? 100 : 4;
      append_step(folder.path(), 1, rank, record);
    }
  }
  EXPECT_DOUBLE_EQ(waiting_steps_of(folder.path(), 1, 1).value().share, 0.25);
  const WaitingSteps most = waiting_steps_of(folder.path(), 3, 1).value();
  EXPECT_DOUBLE_EQ(most.share, 0.75);
  EXPECT_EQ(most.rank, 1);
}

}  // namespace
}  // namespace mlbench::report
