// Archives made by hand. Figures of the dashboard's archives are published ones: CIFAR-10 to 80 % with 2 NCCL workers
// on T4 in 106.91 s (compute 53.0, communication 45.5, 12 epochs), epsilon to 89 % with 2 workers on CPUs in 40.2 s
// (23.5, 16.0, 12 epochs), WMT16 to BLEU 24 with 2 workers in 37,504 s (30,701, 6,314).

#include "mlbench/report/archive/result.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/test_records.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Members = std::map<std::string, std::string>;

std::vector<ZipMember> list_of(const Members& members) {
  std::vector<ZipMember> list;
  for (const auto& [name, content] : members) list.push_back({name, content});
  return list;
}

Json derive(const Members& members) { return derive_result(read_zip(make_zip(list_of(members), 0))); }

std::string why_not_derived(const Members& members) {
  return error_of([&] { derive(members); });
}

std::vector<std::string> differences_of(const Json& result) {
  std::vector<std::string> what;
  for (const Json& one : result["differences"]) what.push_back(one["what"]);
  return what;
}

// ---- archives of the dashboard --------------------------------------------------------------------------------------

std::string stamp(int second) { return fmt::format("2020-11-30T12:{:02}:{:02}Z", second / 60, second % 60); }

// Values at the given seconds after noon.
std::string series(const std::vector<std::pair<int, double>>& points) {
  Json list = Json::array();
  for (const auto& [second, value] : points) {
    list.push_back({{"date", stamp(second)}, {"value", fmt::format("{}", value)}, {"cumulative", false}});
  }
  return list.dump(4);
}

std::string member(const std::string& name, int rank = 0) { return fmt::format("result_{} @ {}.json", name, rank); }

struct DashboardRun {
  int workers = 2, epochs = 12;
  std::map<std::string, double> kinds;  // whole seconds of each step kind; the rest of the total is `end`
  double total = 0;
  std::string metric = "Prec@1";
  std::vector<double> values;  // one evaluation behind each epoch
  std::string claim;
};

// Epoch e ends at second 100 + 10 e, its evaluation 5 s later. Epochs are of unequal length: weights 1, 2, 3, ...
Members archive_of(const DashboardRun& run) {
  Members members;
  const double weights = run.epochs * (run.epochs + 1) / 2.0;
  const auto spread = [&](double total) {
    std::vector<std::pair<int, double>> points;
    for (int epoch = 1; epoch <= run.epochs; ++epoch) points.emplace_back(100 + 10 * epoch, total * epoch / weights);
    return series(points);
  };
  for (int rank = 0; rank < run.workers; ++rank) {
    const double scale = rank == 0 ? 1 : 1.5;  // only rank 0 counts
    members[member("CumulativeTrainTimeEpoch", rank)] = spread(scale * run.total);
    for (const auto& [kind, seconds] : run.kinds) members[member(kind, rank)] = spread(scale * seconds);
    members[member("train_loss", rank)] = series({{101, 2.3}, {100 + 10 * run.epochs - 1, 0.5}});
  }
  std::vector<std::pair<int, double>> evaluations;
  for (size_t i = 0; i < run.values.size(); ++i)
    evaluations.emplace_back(115 + 10 * static_cast<int>(i), run.values[i]);
  members[member("val_global_" + run.metric)] = series(evaluations);
  if (!run.claim.empty()) {
    members["official_result.txt"] = run.claim;
    members[member("TotalCumulativeTrainTime")] = series({{300, run.total}});
    members[member("global_cum_CumulativeTrainTimeEpoch")] = series({{300, run.total}});
    for (const auto& [kind, seconds] : run.kinds) members[member("global_cum_" + kind)] = series({{300, seconds}});
  }
  members["rel-mlbench-worker-0_cpu.json"] = series({{100, 0.5}});
  return members;
}

DashboardRun cifar() {
  return {.workers = 2,
          .epochs = 12,
          .kinds = {{"fwd_pass", 18.5},
                    {"comp_loss", 1.25},
                    {"backprop", 31.0},
                    {"opt_step", 2.25},
                    {"agg", 45.5},
                    {"comp_metrics", 1.5},
                    {"batch_load", 4.75}},
          .total = 106.91,
          .metric = "Prec@1",
          .values = {35.1, 48.2, 55.0, 61.7, 66.3, 70.2, 72.8, 74.9, 76.6, 78.1, 79.99, 80.34},
          .claim =
              "80% Top 1 Validation Accuracy reached in 106.910 seconds, Compute: 53.0 seconds, "
              "Communication: 45.5 seconds, Metrics Computation: 1.5 seconds, Pre-processing: 4.75 seconds"};
}

TEST(DashboardArchive, Task1a) {
  const Json result = derive(archive_of(cifar()));
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_EQ(result["format"], "dashboard");
  EXPECT_EQ(result["task"], "1a");
  EXPECT_EQ(result["light"], false);
  EXPECT_EQ(result["workers"], 2);
  EXPECT_EQ(result["epochs"], 12);
  EXPECT_EQ(result["source"], "epochs");
  EXPECT_EQ(result["goal"]["reached"], true);
  EXPECT_EQ(result["goal"]["value"], 80.34);
  EXPECT_EQ(result["goal"]["evaluation"], 12);
  EXPECT_NEAR(result["seconds"]["total"].get<double>(), 106.91, 1e-9);
  EXPECT_NEAR(result["seconds"]["compute"].get<double>(), 53.0, 1e-9);
  EXPECT_NEAR(result["seconds"]["communication"].get<double>(), 45.5, 1e-9);
  EXPECT_NEAR(result["seconds"]["other"].get<double>(), 106.91 - 53 - 45.5 - 1.5 - 4.75, 1e-9);
  EXPECT_THAT(result["official_result"].get<std::string>(),
              testing::StartsWith("80% Top 1 Validation Accuracy reached in 106.910 seconds, Compute: 5"));
}

// An archive of task 0 with these times at rank 0 (twice as long at other ranks) and two types of each size.
Members task_0_archive(const std::vector<std::pair<int, double>>& sizes_and_times, int workers) {
  std::vector<std::pair<int, double>> sizes, types, cuda, times;
  int second = 0;
  for (const auto& [size, time] : sizes_and_times) {
    for (const int bits : {32, 16}) {
      ++second;
      sizes.emplace_back(second, size);
      types.emplace_back(second, bits);
      cuda.emplace_back(second, 0);
      times.emplace_back(second, bits == 32 ? time : time / 2);
    }
  }
  Members members;
  for (int rank = 0; rank < workers; ++rank) {
    std::vector<std::pair<int, double>> of_rank = times;
    for (auto& [at, time] : of_rank) time *= rank == 0 ? 1 : 2;
    members[member("val_tensor_size", rank)] = series(sizes);
    members[member("val_dtype", rank)] = series(types);
    members[member("val_cuda", rank)] = series(cuda);
    members[member("val_avg_time", rank)] = series(of_rank);
  }
  return members;
}

// Published means of MPI on CPUs with 4 workers: 0.26, 0.96, 9.9 and 1056 ms.
TEST(Task0Archive, BecomesRows) {
  const Members members = task_0_archive({{1, 0.26e-3}, {8899, 0.96e-3}, {943373, 9.9e-3}, {100000000, 1.056}}, 4);
  const Json result = derive(members);
  EXPECT_EQ(result["task"], "0a");
  EXPECT_EQ(result["workers"], 4);
  EXPECT_EQ(result["differences"], Json::array());
  const Json& rows = result["collectives"]["results"];
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[6]["operation"], "all_reduce");
  EXPECT_EQ(rows[6]["count"], 100000000);
  EXPECT_EQ(rows[6]["size"], 400000000);
  EXPECT_EQ(rows[6]["dtype"], "float32");
  EXPECT_EQ(rows[6]["redop"], "sum");
  EXPECT_EQ(rows[6]["device"], "cpu");
  EXPECT_EQ(rows[6]["out_of_place"], nullptr);
  EXPECT_DOUBLE_EQ(rows[6]["in_place"]["time"].get<double>(), 1.056e6) << "at rank 0";
  EXPECT_NEAR(rows[6]["in_place"]["alg_bw"].get<double>(), 0.4 / 1.056, 1e-12);
  EXPECT_NEAR(rows[6]["in_place"]["bus_bw"].get<double>(), 0.4 / 1.056 * 1.5, 1e-12);
  EXPECT_EQ(rows[6]["in_place"]["nwrong"], nullptr) << "nothing was checked";
  EXPECT_EQ(rows[6]["in_place"]["iterations"], nullptr);
  EXPECT_EQ(rows[7]["dtype"], "float16");
  EXPECT_EQ(rows[7]["size"], 200000000);
  const std::string text = result_text(result);
  EXPECT_THAT(text, testing::StartsWith("MLBench's task 0a: all-reduce, 4 workers (archive of MLBench's dashboard)\n"));
  EXPECT_THAT(text, HasSubstr("\n100,000,000  400,000,000  float32  cpu     1056000.0  0.3788  0.5682\n"));
  EXPECT_THAT(text, HasSubstr("note: each time is the mean of 100 all-reduces at rank 0"));
}

TEST(Task0Archive, ValuesBelongTogetherInTheOrderOfTime) {
  Members members = task_0_archive({{1, 1e-3}, {2, 2e-3}, {4, 4e-3}}, 2);
  // The dashboard stores points as they arrive, in parallel requests: here the same points in another order.
  for (auto& [name, content] : members) {
    Json points = Json::parse(content);
    std::swap(points[0], points[5]);
    std::swap(points[1], points[3]);
    content = points.dump();
  }
  const Json result = derive(members);
  const Json& rows = result["collectives"]["results"];
  EXPECT_EQ(rows[0]["count"], 1);
  EXPECT_EQ(rows[5]["count"], 4);
  EXPECT_EQ(rows[5]["dtype"], "float16");
  EXPECT_DOUBLE_EQ(rows[5]["in_place"]["time"].get<double>(), 2000);
  EXPECT_EQ(result["notes"].size(), 1U);
}

TEST(Task0Archive, WhatIsNotAsItShouldBe) {
  const std::vector<std::pair<int, double>> sizes = {{1, 1e-3}, {2, 2e-3}};
  Members members = task_0_archive(sizes, 2);
  members[member("val_avg_time")] = series({{1, 1e-3}, {2, 0.5e-3}, {3, 2e-3}});
  Json result = derive(members);
  EXPECT_EQ(result["collectives"]["results"].size(), 3U) << "a run that crashed in its last size";
  EXPECT_THAT(result["notes"][1].get<std::string>(), HasSubstr("4, 4, 4 and 3 values: the first 3"));
  members = task_0_archive({{2, 1e-3}, {1, 1e-3}}, 2);
  EXPECT_THAT(derive(members)["notes"][1].get<std::string>(), HasSubstr("do not ascend"));
  members = task_0_archive(sizes, 1);
  EXPECT_EQ(derive(members)["collectives"]["results"][0]["in_place"]["bus_bw"], nullptr) << "one rank moves nothing";
  members[member("val_dtype")] = series({{1, 8}});
  EXPECT_THAT(why_not_derived(members),
              HasSubstr("'result_val_dtype @ 0.json': point 0 is 8; expected 16, 32 or 64 bits"));
  members = task_0_archive(sizes, 1);
  members[member("val_tensor_size")] = series({{1, 1.5}});
  EXPECT_THAT(why_not_derived(members), HasSubstr("point 0 is 1.5; expected whole elements"));
  members = task_0_archive(sizes, 1);
  members.erase(member("val_cuda"));
  EXPECT_THAT(why_not_derived(members), HasSubstr("'result_val_cuda @ 0.json': there is none"));
}

TEST(DashboardArchive, OfACustomRunSaysSo) {
  Members members = archive_of(cifar());
  members["run.json"] = R"({"division": "custom", "name": "c-2"})";
  const Json result = derive(members);
  EXPECT_EQ(result["format"], "custom");
  EXPECT_EQ(result["name"], "c-2");
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_THAT(result_text(result),
              testing::StartsWith("c-2: task 1a, goal Prec@1 >= 80, 2 workers (archive of mlbench, "
                                  "a custom run)\n"));
}

TEST(DashboardArchive, OneWorkerHasNoCommunication) {
  DashboardRun run = cifar();
  run.workers = 1;
  run.kinds.erase("agg");
  run.claim.erase(run.claim.find(", Communication: 45.5 seconds"), std::string(", Communication: 45.5 seconds").size());
  const Json result = derive(archive_of(run));
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_EQ(result["seconds"]["communication"], 0);
  EXPECT_THAT(result["official_result"].get<std::string>(), testing::Not(HasSubstr("Communication")));
}

TEST(DashboardArchive, Task2aFullAndLight) {
  DashboardRun run{
      .workers = 2,
      .epochs = 12,
      .kinds = {{"fwd_pass", 9.5}, {"backprop", 10.0}, {"opt_step", 4.0}, {"agg", 16.0}},
      .total = 40.2,
      .metric = "Prec@1",
      .values = {70, 81, 84, 85, 86, 87, 87.5, 88, 88.2, 88.5, 88.9, 89},
      .claim =
          "89% Top 1 Validation Accuracy reached in 40.200 seconds, Compute: 23.5 seconds, Communication: 16.0 "
          "seconds"};
  const Json full = derive(archive_of(run));
  EXPECT_EQ(full["differences"], Json::array());
  EXPECT_EQ(full["task"], "2a");
  EXPECT_EQ(full["light"], false);

  run.values = {70, 80.5};
  run.epochs = 2;
  run.claim.replace(0, 2, "80");
  EXPECT_EQ(derive(archive_of(run))["task"], "1a");
  Members members = archive_of(run);
  members[member("val_global_F1-Score")] = series({{115, 0.7}, {125, 0.8}});
  const Json light = derive(members);
  EXPECT_EQ(light["differences"], Json::array());
  EXPECT_EQ(light["task"], "2a");
  EXPECT_EQ(light["light"], true);
}

TEST(DashboardArchive, PerplexityGoesDown) {
  const Json result = derive(archive_of({.workers = 1,
                                         .epochs = 3,
                                         .kinds = {{"fwd_pass", 100}},
                                         .total = 120,
                                         .metric = "Perplexity",
                                         .values = {200, 95, 89.5},
                                         .claim = "Validation Perplexity of 90 reached in 120.000 seconds, Compute: "
                                                  "100.0 seconds"}));
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_EQ(result["task"], "3a");
  EXPECT_EQ(result["light"], true);
  EXPECT_EQ(result["goal"]["evaluation"], 3);
  EXPECT_EQ(result["seconds"]["other"], 20);
}

TEST(DashboardArchive, AGoalInMidEpochTakesTheRunsTotals) {
  DashboardRun run{.workers = 2,
                   .epochs = 4,
                   .kinds = {{"fwd_pass", 30701}, {"agg", 6314}},
                   .total = 37504,
                   .metric = "BLEU-Score",
                   .values = {18.5, 21.0, 22.4, 23.2, 24.1},
                   .claim =
                       "Validation BLEU-Score of 24 reached in 37504.000 seconds, Compute: 30701.0 seconds, "
                       "Communication: 6314.0 seconds"};
  Members members = archive_of(run);
  // The last evaluation, at second 155, follows a batch of epoch 5 at 150; the four epochs hold less than the total.
  members[member("train_loss")] = series({{101, 8}, {150, 3}});
  members[member("CumulativeTrainTimeEpoch")] = series({{110, 9000}, {120, 9000}, {130, 9000}, {140, 9000}});
  const Json result = derive(members);
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_EQ(result["task"], "4a");
  EXPECT_EQ(result["source"], "totals");
  EXPECT_EQ(result["seconds"]["total"], 37504);
  EXPECT_EQ(result["seconds"]["communication"], 6314);
  EXPECT_THAT(result["notes"].dump(), HasSubstr("in the middle of an epoch"));
  members.erase(member("TotalCumulativeTrainTime"));
  EXPECT_THAT(why_not_derived(members), HasSubstr("'result_TotalCumulativeTrainTime @ 0.json'"));

  run.claim = "Validation BLEU-Score of 20 reached in 1.000 seconds";
  run.values = {18, 19, 19.5, 20};
  EXPECT_EQ(derive(archive_of(run))["task"], "4a or 4b");
}

TEST(DashboardArchive, ClaimsThatTheEventsDoNotGive) {
  const auto with = [](const char* from, const char* to) {
    DashboardRun run = cifar();
    run.claim.replace(run.claim.find(from), std::string(from).size(), to);
    return derive(archive_of(run));
  };
  EXPECT_THAT(differences_of(with("106.910", "96.910")), ElementsAre("official_result.txt, total"));
  EXPECT_THAT(differences_of(with("45.5", "45.4")), ElementsAre("official_result.txt, Communication"));
  EXPECT_THAT(differences_of(with(", Metrics Computation: 1.5 seconds", "")),
              ElementsAre("official_result.txt, Metrics Computation"));
  EXPECT_THAT(differences_of(with("106.910", "106.9105")), IsEmpty()) << "rounded to milliseconds";

  // The claim names another goal than the one that was reached.
  const RecordJson higher = with("80%", "89%");
  EXPECT_EQ(higher["task"], "2a");
  EXPECT_EQ(higher["goal"]["reached"], false);
  EXPECT_TRUE(higher["official_result"].is_null());
  ASSERT_THAT(differences_of(higher), ElementsAre("official_result.txt"));
  EXPECT_EQ(higher["differences"][0]["derived"], "the best Prec@1 is 80.34");
  const RecordJson unknown = with("80%", "75%");
  EXPECT_TRUE(unknown["task"].is_null());
  EXPECT_EQ(unknown["goal"]["evaluation"], 9);
  EXPECT_EQ(unknown["epochs"], 9);

  // The goal was met an epoch earlier than the claimed time says.
  DashboardRun early = cifar();
  early.values[10] = 80;
  const Json result = derive(archive_of(early));
  EXPECT_EQ(result["epochs"], 11);
  EXPECT_NEAR(result["seconds"]["total"].get<double>(), 106.91 * 66 / 78, 1e-9);
  EXPECT_THAT(differences_of(result), testing::Contains("official_result.txt, total"));
  EXPECT_THAT(result["notes"].dump(), HasSubstr("1 more evaluations after the goal"));

  // The totals are not the sums.
  Members members = archive_of(cifar());
  members[member("global_cum_agg")] = series({{300, 44}});
  EXPECT_THAT(differences_of(derive(members)), ElementsAre("global_cum_agg"));
}

TEST(DashboardArchive, WithoutAClaim) {
  DashboardRun run = cifar();
  run.claim = "";
  const Json reached = derive(archive_of(run));
  ASSERT_THAT(differences_of(reached), ElementsAre("official_result.txt"));
  EXPECT_EQ(reached["differences"][0]["claimed"], "nothing");
  run.values.back() = 79;
  const Json missed = derive(archive_of(run));
  EXPECT_EQ(missed["differences"], Json::array());
  EXPECT_TRUE(missed["official_result"].is_null());
  EXPECT_EQ(missed["goal"]["value"], 79.99);
  EXPECT_THAT(result_text(missed), HasSubstr("no result of MLBench's: the goal was not reached (best 79.99)"));
}

TEST(DashboardArchive, MalformedOnesAreExplained) {
  EXPECT_THAT(why_not_derived({{"result_val_avg_time @ 0.json", series({{1, 2}})}}),
              AllOf(HasSubstr("no 'result_CumulativeTrainTimeEpoch @ 0.json'"), HasSubstr("val_avg_time")));
  EXPECT_THAT(why_not_derived({}), HasSubstr("its metrics are none"));
  const auto with = [](const std::string& name, const std::string& content) {
    Members members = archive_of(cifar());
    members[name] = content;
    return why_not_derived(members);
  };
  EXPECT_THAT(with(member("agg"), "["), HasSubstr("'result_agg @ 0.json': it is not JSON"));
  EXPECT_THAT(with(member("agg"), "{}"), HasSubstr("it is not a list of points"));
  EXPECT_THAT(with(member("agg"), "[1]"), HasSubstr("point 0 has no text \"date\""));
  EXPECT_THAT(with(member("agg"), R"([{"date": "2020-11-30T12:00:00Z", "value": 1}])"), HasSubstr("no text \"value\""));
  EXPECT_THAT(with(member("agg"), R"([{"date": "yesterday", "value": "1"}])"),
              HasSubstr("point 0: 'yesterday' is not a UTC time"));
  EXPECT_THAT(with(member("agg"), series({{110, 1}})), HasSubstr("1 epochs; CumulativeTrainTimeEpoch has 12"));
  for (const char* value : {"fast", "", "-1", "nan", "inf", "1e300", "1 s"}) {
    EXPECT_THAT(with(member("agg"), fmt::format(R"([{{"date": "2020-11-30T12:00:00Z", "value": "{}"}}])", value)),
                HasSubstr("'result_agg @ 0.json': point 0 is"))
        << value;
  }
  EXPECT_THAT(with("official_result.txt", "It was fast.\x1b[31m"), "no error");
}

TEST(DashboardArchive, AnythingMayStandInTheClaim) {
  Members members = archive_of(cifar());
  for (const std::string& claim : {std::string("It was fast.\x1b[31m"), std::string(), std::string(100000, '9'),
                                   std::string("80.1.2% Top 1 Validation Accuracy reached in 1 seconds")}) {
    members["official_result.txt"] = claim;
    const Json result = derive(members);
    EXPECT_THAT(differences_of(result), ElementsAre("official_result.txt"));
    EXPECT_EQ(result_text(result).find('\x1b'), std::string::npos);
  }
}

TEST(DashboardArchive, TextIsUtf8WithOrWithoutItsMark) {
  Members members = archive_of(cifar());
  const Json plain = derive(members);
  const auto with = [&](const std::function<std::string(const std::string&)>& change) {
    Members changed;
    for (const auto& [name, content] : members) changed[name] = change(content);
    return derive(changed);
  };
  EXPECT_EQ(with([](const std::string& text) { return "\xEF\xBB\xBF" + text; }), plain);
  const auto wide = [](const std::string& text) {
    std::string twice;
    for (const char c : text) twice += {c, '\0'};
    return twice;
  };
  EXPECT_THAT([&] { with([&](const std::string& text) { return "\xFF\xFE" + wide(text); }); },
              testing::ThrowsMessage<UserError>(HasSubstr("is text in UTF-16")));
  EXPECT_THAT([&] { with(wide); }, testing::ThrowsMessage<UserError>(HasSubstr("byte 2 is zero")));
}

// ---- our own archives -----------------------------------------------------------------------------------------------

class OwnArchive : public testing::Test {
 protected:
  void SetUp() override {
    // Times that no sum of floating-point numbers gets right by luck.
    for (int64_t rank = 0; rank < 2; ++rank) {
      start_spool(run_.path(), 1, rank);
      for (uint64_t i = 0; i < 30; ++i) {
        append_step(run_.path(), 1, rank, step(i, static_cast<uint32_t>(i / 10)));
      }
    }
    for (const double value : {60.1, 78.5, 85.25}) {
      append_event(run_.path(), 1, 0,
                   {{"event", "evaluation"},
                    {"split", "test"},
                    {"end_ns", 1'500'000'000},
                    {"metrics", {{"Prec@1", value}, {"loss", 0.1 * value}}}});
    }
    const spec::FrozenTask task = spec::find_task("fashion-mnist", "", "", {});
    record_ = make_record("r-2", 2, 40, 5400, true);
    record_["task_hash"] = task.hash;
    record_["evaluations"] = Json::array();
    for (const double value : {60.1, 78.5, 85.25}) {
      record_["evaluations"].push_back({{"split", "test"}, {"metrics", {{"Prec@1", value}, {"loss", 0.1 * value}}}});
    }
    record::RankSpool spool = record::read_spool(run_.path(), 1, 0);
    int64_t train_ns = 0, legacy_ns = 0;
    record_["steps_s"] = Json::object();
    for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
      int64_t sum = 0;
      for (const record::StepRecord& record : spool.steps) sum += record.kinds_ns[kind];
      const std::string name(record::kStepKindNames[kind]);
      record_["steps_s"][name] = static_cast<double>(sum) / 1e9;
      train_ns += sum;
      if (name != "batch_load" && name != "checkpoint") legacy_ns += sum;
    }
    record_["clocks"] = {{"train_s", double(train_ns) / 1e9}, {"train_legacy_s", double(legacy_ns) / 1e9}};
    record_["goal"]["train_s"] = double(train_ns) / 1e9;
  }

  static record::StepRecord step(uint64_t number, uint32_t epoch) {
    record::StepRecord record = make_step(number, 1, epoch, 1.0, 0, static_cast<int64_t>(number + 1) * 40'000'000);
    for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
      record.kinds_ns[kind] = static_cast<int64_t>(1'000'003 * (kind + 1) + 7919 * number);
    }
    return record;
  }

  Members members() const {
    Members members;
    for (ZipMember& member : download_members(run_.path(), record_)) members[member.name] = std::move(member.content);
    return members;
  }

  // The members, with a run.json in which `pointer` has another value.
  Members with(const char* pointer, const Json& value) const {
    Members changed = members();
    Json record = record_.json();
    record[Json::json_pointer(pointer)] = value;
    changed["run.json"] = record.dump();
    return changed;
  }

  TemporaryFolder run_;
  RecordJson record_ = Json();
};

TEST_F(OwnArchive, AgreesToTheLastDigit) {
  const Json result = derive(members());
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_EQ(result["notes"], Json::array());
  EXPECT_EQ(result["official_result"], official_result(record_));
  EXPECT_EQ(result["claimed"], official_result(record_));
  EXPECT_EQ(result["task"], "fashion-mnist");
  EXPECT_EQ(result["light"], true);
  EXPECT_EQ(result["goal"]["evaluation"], 3);
  EXPECT_EQ(result["seconds"]["train"], record_["clocks"]["train_s"]);
  EXPECT_EQ(result["seconds"]["total"], record_["clocks"]["train_legacy_s"]);
  EXPECT_EQ(result["epochs"], 3);
  EXPECT_THAT(result_text(result),
              AllOf(HasSubstr("r-2: task fashion-mnist, light goal Prec@1 >= 85, 2 workers (archive of mlbench)\n"),
                    HasSubstr("85% Top 1 Validation Accuracy reached in "), HasSubstr("3 epochs, 3 evaluations"),
                    HasSubstr("what the archive claims is what its events give\n")));
}

// The last evaluation, which a limit brought about and no goal is judged by, is that of a model that diverged.
TEST_F(OwnArchive, AnEvaluationThatIsNoNumberIsOne) {
  const Json metrics = {{"Prec@1", nullptr}, {"loss", nullptr}};
  append_event(run_.path(), 1, 0,
               {{"event", "evaluation"}, {"split", "test"}, {"end_ns", 1'600'000'000}, {"metrics", metrics}});
  record_["evaluations"].push_back({{"split", "test"}, {"cadence", false}, {"metrics", metrics}});
  EXPECT_EQ(derive(members())["differences"], Json::array());
  EXPECT_THAT(differences_of(derive(with("/evaluations/3/metrics/Prec@1", 85.25))),
              ElementsAre("run.json evaluations, Prec@1"));
}

TEST_F(OwnArchive, EveryClaimIsChecked) {
  const std::pair<const char*, Json> changes[] = {
      {"/clocks/train_s", 1.0}, {"/clocks/train_legacy_s", 1.0}, {"/steps_s/agg", 0.001}, {"/workers", 4},
      {"/goal/value", 85.5},    {"/goal/train_s", 0.5},          {"/goal/reached", false}};
  for (const auto& [pointer, value] : changes) {
    std::string what = std::string("run.json ") + (pointer + 1);
    std::replace(what.begin(), what.end(), '/', '.');
    EXPECT_THAT(differences_of(derive(with(pointer, value))), ElementsAre(what));
  }
  EXPECT_THAT(differences_of(derive(with("/clocks/train_s", nullptr))), ElementsAre("run.json clocks.train_s"));
  EXPECT_THAT(differences_of(derive(with("/evaluations/1/metrics/Prec@1", 79))),
              ElementsAre("run.json evaluations, Prec@1"));
  EXPECT_THAT(differences_of(derive(with("/evaluations", Json::array()))), ElementsAre("run.json evaluations, Prec@1"));
  // The goal in run.json is easier than the task's.
  const Json easier = derive(with("/goal/target", 78));
  EXPECT_THAT(differences_of(easier), testing::IsSupersetOf({"run.json goal.target", "run.json goal.value"}));
  EXPECT_EQ(easier["goal"]["evaluation"], 2);
  // The direction in run.json is not the metric's.
  EXPECT_THAT(differences_of(derive(with("/goal/higher_is_better", false))),
              testing::Contains("run.json goal.higher_is_better"));
  const Json full = derive(with("/limits/light", false));
  EXPECT_THAT(differences_of(full), ElementsAre("run.json goal.target"));

  Members text = members();
  text["official_result.txt"].replace(0, 2, "90");
  EXPECT_THAT(differences_of(derive(text)), ElementsAre("official_result.txt"));
  text.erase("official_result.txt");
  EXPECT_THAT(differences_of(derive(text)), ElementsAre("official_result.txt"));
  Members total = members();
  total["result_TotalCumulativeTrainTime @ 0.json"] = total["result_global_cum_agg @ 0.json"];
  EXPECT_THAT(differences_of(derive(total)), ElementsAre("TotalCumulativeTrainTime"));
  Members one = members();
  one.erase("result_fwd_pass @ 0.json");
  EXPECT_THAT(differences_of(derive(one)), testing::Contains("run.json steps_s.fwd_pass"));
  EXPECT_THAT(result_text(derive(one)), HasSubstr("the archive claims otherwise than its events give:\n"));
}

TEST_F(OwnArchive, ARunWithoutAGoalHasNoResult) {
  record_["goal"] = nullptr;
  record_["evaluations"] = Json::array();
  Members throughput = members();
  for (const char* name : {"result_val_global_Prec@1 @ 0.json", "result_val_global_loss @ 0.json"})
    throughput.erase(name);
  const Json result = derive(throughput);
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_TRUE(result["goal"].is_null());
  EXPECT_THAT(result_text(result), HasSubstr("no result of MLBench's: a run without a goal\n"));
}

TEST_F(OwnArchive, ATaskOfSomebodysOwnIsTakenAsItIs) {
  const Json result = derive(with("/task_hash", "0123"));
  EXPECT_EQ(result["differences"], Json::array());
  EXPECT_THAT(result["notes"].dump(), HasSubstr("not one of this program's"));
}

TEST_F(OwnArchive, MalformedOnesAreExplained) {
  EXPECT_THAT(why_not_derived(with("/state", "running")), HasSubstr("download it again"));
  Members broken = members();
  broken["run.json"] = "[]";
  EXPECT_THAT(why_not_derived(broken), HasSubstr("'run.json': its record: it is no JSON object"));
  broken["run.json"] = "{";
  EXPECT_THAT(why_not_derived(broken), HasSubstr("'run.json': it is not JSON"));
  EXPECT_THAT(why_not_derived(with("/limits", 3)), HasSubstr("'run.json': "));
  EXPECT_THAT(why_not_derived(with("/evaluations", {{"a", 1}})), HasSubstr("'run.json': "));
  EXPECT_THAT(why_not_derived(with("/goal/higher_is_better", nullptr)),
              HasSubstr("'run.json': goal.higher_is_better is missing, so which values of 'Prec@1' are better is not "
                        "known: use the mlbench that wrote it"));
}

}  // namespace
}  // namespace mlbench::report
