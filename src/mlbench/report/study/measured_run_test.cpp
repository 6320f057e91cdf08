#include "mlbench/report/study/measured_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/test_error.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/records.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;

class MeasuredRunTest : public testing::Test {
 protected:
  // Two epochs of 2 s and 3 s of train clock, with an evaluation of 5 s between them.
  void make_run(const std::string& name) {
    const auto run = folder_.path() / name;
    std::filesystem::create_directories(run);
    start_spool(run, 1, 0);
    append_step(run, 1, 0, make_step(0, 25, 0, 2.0, 40'000'000, 1'000'000'000));
    append_step(run, 1, 0, make_step(25, 25, 0, 1.0, 40'000'000, 2'000'000'000));
    append_step(run, 1, 0, make_step(50, 25, 1, 0.5, 120'000'000, 10'000'000'000));
    write_json_file(run / "run.json", make_record(name, 1, 5, 1500, true));
    write_json_file(run / "spec.json", {{"id", 1}});
  }
  TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST_F(MeasuredRunTest, AFolderHasItsLossOnTheTrainClock) {
  make_run("r-1");
  const MeasuredRun run = read_run_folder(folder_.path() / "r-1");
  ASSERT_EQ(run.loss.size(), 3U);
  EXPECT_DOUBLE_EQ(run.loss[1].train_s, 2);
  EXPECT_DOUBLE_EQ(run.loss[2].train_s, 5);
  EXPECT_DOUBLE_EQ(run.loss[2].loss, 0.5);
  EXPECT_EQ(run.record.name, "r-1");
}

TEST_F(MeasuredRunTest, PackedSpoolsOfAKeptRunAreRead) {
  const auto kept = std::filesystem::path(MLBENCH_RULES_PAGE).parent_path() / "results/4b-multi30k/tf-2";
  const MeasuredRun run = read_run_folder(kept);
  EXPECT_GT(run.loss.size(), run.record.epochs.size()) << "a point for some steps each, and not for each epoch";
  const MeasuredRun older = read_run_folder(kept.parent_path().parent_path() / "2a/o18-1");
  EXPECT_EQ(older.loss.size(), older.record.epochs.size()) << "its spool lacks a column";
  make_run("r-1");
  const auto steps = steps_path(folder_.path() / "r-1", 1, 0);
  std::filesystem::rename(steps, steps.string() + ".gz");
  EXPECT_THAT([&] { read_run_folder(folder_.path() / "r-1"); },
              testing::ThrowsMessage<UserError>(HasSubstr("rank-0.seg-1.steps.gz: ")));
}

TEST_F(MeasuredRunTest, LongRunsAreMergedBySamples) {
  const auto run = folder_.path() / "long-1";
  std::filesystem::create_directories(run);
  start_spool(run, 1, 0);
  for (uint64_t i = 0; i < 1000; ++i) append_step(run, 1, 0, make_step(i, 1, 0, i % 2 == 0 ? 1.0 : 3.0, 1000, 1000));
  write_json_file(run / "run.json", make_record("long-1", 1, 5, 1500, true));
  const MeasuredRun read = read_run_folder(run);
  EXPECT_EQ(read.loss.size(), 334U);  // three to a point
  EXPECT_DOUBLE_EQ(read.loss[0].loss, (1.0 + 3 + 1) / 3);
}

// A chart without the points that are not finite would draw a line across the gap.
TEST_F(MeasuredRunTest, ALossThatIsNoNumberIsAPoint) {
  const auto run = folder_.path() / "nan-1";
  std::filesystem::create_directories(run);
  start_spool(run, 1, 0);
  for (uint64_t i = 0; i < 3; ++i) append_step(run, 1, 0, make_step(i, 1, 0, i == 1 ? NAN : 1.0, 1'000'000'000, 1000));
  write_json_file(run / "run.json", make_record("nan-1", 1, 3, 1500, true));
  write_json_file(run / "spec.json", {{"id", 1}});
  const MeasuredRun read = read_run_folder(run);
  ASSERT_EQ(read.loss.size(), 3U);
  EXPECT_TRUE(std::isnan(read.loss[1].loss));

  RecordJson record = make_record("r-1", 1, 5, 1500, true);
  record["epochs"] = Json::array({{{"train_s", 2.0}, {"train_loss", nullptr}}, {{"train_s", 3.0}, {"train_loss", 1}}});
  const MeasuredRun of_record = read_run_record(record);
  ASSERT_EQ(of_record.loss.size(), 2U);
  EXPECT_TRUE(std::isnan(of_record.loss[0].loss));
}

// The end of an epoch fixes the train clock; the evaluation between the epochs is not in it.
TEST_F(MeasuredRunTest, AnArchiveHasItsLossOnTheTrainClock) {
  make_run("r-1");
  const auto members = download_members(folder_.path() / "r-1", read_record(folder_.path() / "r-1"));
  const MeasuredRun run = read_run_archive(members, "other");
  EXPECT_EQ(run.record.name, "r-1");
  ASSERT_EQ(run.loss.size(), 3U);
  EXPECT_NEAR(run.loss[1].train_s, 2, 1e-6);
  EXPECT_NEAR(run.loss[2].train_s, 5, 1e-6);
  EXPECT_NEAR(run.loss[0].train_s, 1, 1e-3);
}

TEST_F(MeasuredRunTest, ARecordAloneHasOnePointPerEpoch) {
  RecordJson record = make_record("r-1", 1, 5, 1500, true);
  record["epochs"] = Json::array({{{"train_s", 2.0}, {"train_loss", 0.7}}, {{"train_s", nullptr}, {"train_loss", 1}}});
  const MeasuredRun run = read_run_record(record);
  ASSERT_EQ(run.loss.size(), 1U);
  EXPECT_EQ(run.loss[0].loss, 0.7);
}

// An archive of MLBench's dashboard: no run.json, values as text, dates of the end of two epochs.
TEST_F(MeasuredRunTest, AnArchiveOfTheDashboard) {
  const auto series = [](std::vector<std::pair<const char*, const char*>> points) {
    Json list = Json::array();
    for (const auto& [date, value] : points) list.push_back({{"date", date}, {"value", value}, {"cumulative", false}});
    return list.dump();
  };
  std::vector<ZipMember> members = {
      {"result_train_loss @ 0.json", series({{"2020-11-30T12:00:10Z", "1.5"}, {"2020-11-30T12:00:20Z", "0.9"}})},
      {"result_val_global_Prec@1 @ 0.json", series({{"2020-11-30T12:00:12Z", "70.5"}, {"2020-11-30T12:00:22Z", "81"}})},
      {"result_CumulativeTrainTimeEpoch @ 0.json",
       series({{"2020-11-30T12:00:10Z", "8.0"}, {"2020-11-30T12:00:20Z", "6.0"}})},
      {"result_TotalCumulativeTrainTime @ 0.json", series({{"2020-11-30T12:00:25Z", "14.0"}})},
      {"official_result.txt",
       "80% Top 1 Validation Accuracy reached in 14.000 seconds, Compute: 9.0 seconds, Communication: 4.0 seconds"}};
  for (const auto& [kind, first, second, total] :
       {std::tuple("fwd_pass", "5.0", "4.0", "9.0"), std::tuple("agg", "2.5", "1.5", "4.0")}) {
    members.push_back({std::string("result_") + kind + " @ 0.json",
                       series({{"2020-11-30T12:00:10Z", first}, {"2020-11-30T12:00:20Z", second}})});
    members.push_back(
        {std::string("result_global_cum_") + kind + " @ 0.json", series({{"2020-11-30T12:00:25Z", total}})});
  }
  members.push_back(
      {"result_global_cum_CumulativeTrainTimeEpoch @ 0.json", series({{"2020-11-30T12:00:25Z", "14.0"}})});
  const MeasuredRun run = read_run_archive(members, "cifar-2");
  EXPECT_EQ(run.record.name, "cifar-2");
  EXPECT_EQ(run.record.task, "1a");
  EXPECT_EQ(run.record.workers, 1);
  EXPECT_EQ(run.record.goal->reached, true);
  EXPECT_EQ(run.record.clocks.train_s, 14.0);
  EXPECT_EQ(spec::find_number(run.record.steps_s, "agg"), 4.0);
  EXPECT_EQ(spec::find_number(run.record.evaluations[1].metrics, "Prec@1"), 81.0);
  ASSERT_EQ(run.loss.size(), 2U);
  EXPECT_DOUBLE_EQ(run.loss[0].train_s, 8);
  EXPECT_DOUBLE_EQ(run.loss[1].train_s, 14);

  // A run that went on for an epoch after its goal was met has the times, and their parts, up to the goal.
  const auto set = [&](const std::string& name, const std::string& content) {
    std::ranges::find(members, "result_" + name + " @ 0.json", &ZipMember::name)->content = content;
  };
  set("CumulativeTrainTimeEpoch",
      series({{"2020-11-30T12:00:10Z", "8.0"}, {"2020-11-30T12:00:20Z", "6.0"}, {"2020-11-30T12:00:40Z", "20.0"}}));
  set("agg",
      series({{"2020-11-30T12:00:10Z", "2.5"}, {"2020-11-30T12:00:20Z", "1.5"}, {"2020-11-30T12:00:40Z", "9.0"}}));
  set("fwd_pass",
      series({{"2020-11-30T12:00:10Z", "5.0"}, {"2020-11-30T12:00:20Z", "4.0"}, {"2020-11-30T12:00:40Z", "8.0"}}));
  members.push_back({"result_global_cum_opt_step @ 0.json", series({{"2020-11-30T12:00:45Z", "3.0"}})});
  const MeasuredRun longer = read_run_archive(members, "cifar-2");
  EXPECT_EQ(longer.record.clocks.train_s, 14.0);
  EXPECT_EQ(longer.record.steps_s, (record::NamedNumbers{{"fwd_pass", 9.0}, {"agg", 4.0}}));
}

// Task 0 trains nothing; its archive holds rows of a benchmark of collectives.
TEST_F(MeasuredRunTest, AnArchiveOfTask0) {
  const auto series = [](const char* first, const char* second) {
    return Json::array({{{"date", "2020-11-30T12:00:10Z"}, {"value", first}, {"cumulative", false}},
                        {{"date", "2020-11-30T12:00:20Z"}, {"value", second}, {"cumulative", false}}})
        .dump();
  };
  std::vector<ZipMember> members;
  for (const char* rank : {"0", "1"}) {
    for (const auto& [name, first, second] : {std::tuple("tensor_size", "1", "10"), std::tuple("dtype", "32", "32"),
                                              std::tuple("cuda", "1", "1"), std::tuple("avg_time", "0.001", "0.002")}) {
      members.push_back({fmt::format("result_val_{} @ {}.json", name, rank), series(first, second)});
    }
  }
  write_file_atomically(folder_.path() / "nccl-2.zip", make_zip(members, 0));
  const auto runs = read_runs(folder_.path() / "nccl-2.zip", notes_);
  ASSERT_EQ(runs.size(), 1U);
  const auto result = collectives_of(runs[0].record);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->name, "nccl-2");
  EXPECT_EQ(result->workers, 2);
  ASSERT_EQ(result->rows.size(), 2U);
  EXPECT_EQ(result->rows[1].device, "cuda");
  EXPECT_DOUBLE_EQ(result->rows[1].in_place->time_us, 2000);
}

TEST_F(MeasuredRunTest, AHomeAFolderAndFiles) {
  make_run("runs/r-1");
  make_run("runs/r-2");
  EXPECT_EQ(read_runs(folder_.path(), notes_).size(), 2U);
  EXPECT_EQ(read_runs(folder_.path() / "runs", notes_).size(), 2U);
  EXPECT_EQ(read_runs(folder_.path() / "runs" / "r-2", notes_).size(), 1U);
  EXPECT_THAT(notes_, testing::IsEmpty());

  const auto files = folder_.path() / "files";
  std::filesystem::create_directories(files);
  write_json_file(files / "a.json", make_record("a-1", 1, 5, 1500, true));
  write_download(folder_.path() / "runs" / "r-1", make_record("b-1", 1, 5, 1500, true), files / "b.zip");
  write_file_atomically(files / "notes.txt", "not a run");
  const auto runs = read_runs(files, notes_);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].record.name, "b-1");
  EXPECT_THAT(runs[1].source, HasSubstr("b.zip"));
}

TEST_F(MeasuredRunTest, OneDamagedAmongSeveralIsANote) {
  make_run("runs/r-1");
  make_run("runs/r-2");
  write_file_atomically(folder_.path() / "runs" / "r-1" / "run.json", "{");
  EXPECT_EQ(read_runs(folder_.path(), notes_).size(), 1U);
  EXPECT_THAT(notes_, testing::ElementsAre(HasSubstr("r-1 is left out")));
}

TEST_F(MeasuredRunTest, WhatIsNoRunIsAnError) {
  const auto error_of = [&](const std::filesystem::path& path) {
    return mlbench::error_of([&] { read_runs(path, notes_); });
  };
  EXPECT_THAT(error_of(folder_.path() / "nothing"), HasSubstr("no such file or folder"));
  EXPECT_THAT(error_of(folder_.path()), HasSubstr("holds no runs"));
  write_file_atomically(folder_.path() / "x.json", "[]");
  EXPECT_THAT(error_of(folder_.path() / "x.json"), HasSubstr("x.json: the record: it is no JSON object"));
  write_file_atomically(folder_.path() / "x.zip", "PK");
  EXPECT_THAT(error_of(folder_.path() / "x.zip"), HasSubstr("x.zip: "));
}

}  // namespace
}  // namespace mlbench::report
