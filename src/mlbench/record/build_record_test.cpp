#include "mlbench/record/build_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <span>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/test_schema.h"
#include "mlbench/record/test_spool.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/goal_option.h"

namespace mlbench::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr const char* kStamp = "2026-01-31T12:00:00.000000Z";

const std::string kHash(64, 'f');

int64_t micros(const std::string& stamp) {
  return std::chrono::duration_cast<std::chrono::microseconds>(parse_utc(stamp).time_since_epoch()).count();
}

Json evaluation(int64_t step, double accuracy, int64_t train_ns, int64_t end_ns) {
  return {{"event", "evaluation"},
          {"end_ns", end_ns},
          {"step", step},
          {"epoch", step / 10.0},
          {"samples", step * 20},
          {"split", "test"},
          {"cadence", true},
          {"train_ns", train_ns},
          {"metrics", {{"Prec@1", accuracy}, {"loss", 1 - accuracy / 100}}},
          {"duration_ns", kSecond / 2}};
}

class BuildRecord : public testing::Test {
 protected:
  BuildRecord() {
    spec_.id = 3;
    spec_.name = "r-2";
    spec_.created_at = kStamp;
    spec_.workers = 2;
    spec_.data_name = "fashion-mnist";
    spec_.run_dir = folder_.path();
    set_task(spec_, spec::find_task("fashion-mnist", "", "", {}), {});
  }

  // The first segment of one_finished_segment() died after step 20; the second begins again at step 10.
  void resume_at_step_10() {
    progress_.segments[0].exit_codes = {std::nullopt, 9};
    progress_.segments.push_back({2, 10, "2026-01-31T12:01:00.000000Z", "", 52, {0, 0}});
    const int64_t start = micros("2026-01-31T12:01:00.500000Z");
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::vector<Json> events;
      if (rank == 0) {
        events = {evaluation(20, 90, 2 * kSecond, 3 * kSecond), evaluation(30, 91, 4 * kSecond, 5 * kSecond)};
      }
      write_spool(folder_.path(), 2, rank, {step_record(10, 20, 4 * kSecond)}, events, start);
    }
  }

  // Two ranks, 20 steps in records of 10 in 4 s of train clock, two evaluations, one epoch; ended at the goal.
  void one_finished_segment() {
    progress_.state = RunState::kFinished;
    progress_.started_at = kStamp;
    progress_.finished_at = "2026-01-31T12:00:08.000000Z";
    progress_.queue_s = 1.5;
    progress_.wall_s = 8;
    progress_.placement =
        Json::array({{{"rank", 0}, {"host", "node1"}, {"local_rank", 0}, {"cores", "0-1"}, {"gpu", 0}},
                     {{"rank", 1}, {"host", "node2"}, {"local_rank", 0}, {"cores", nullptr}, {"gpu", nullptr}}});
    progress_.segments = {{1, 0, kStamp, "2026-01-31T12:00:08.000000Z", 0, {0, 0}}};
    const int64_t start = micros("2026-01-31T12:00:01.000000Z");
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::vector<Json> events = {
          {{"event", "prepared"},
           {"prepare_s", 0.25},
           {"data", {{"fingerprint", "abc"}, {"official", true}, {"samples", {{"train", 60000}}}}}},
          {{"event", "begin"},
           {"parameters", 3274634},
           {"effective", {{"precision", "float32"}, {"fused", false}, {"overlap", false}, {"buckets", 1}}},
           {"comm_stack", "timeline(gloo)"},
           {"versions", {{"libtorch", "2.15.0"}}},
           {"peak_rss", 1000 + rank}}};
      if (rank == 0) {
        events.push_back(evaluation(10, 84, kSecond, 2 * kSecond));
        events.push_back({{"event", "epoch"},
                          {"end_ns", 0},
                          {"step", 10},
                          {"epoch", 1},
                          {"train_ns", kSecond},
                          {"train_loss", 0.5},
                          {"metrics", {{"Prec@1", 81}}}});
        events.push_back(evaluation(20, 91.5, 4 * kSecond, 6 * kSecond));
        events.push_back({{"event", "goal"},
                          {"step", 20},
                          {"metric", "Prec@1"},
                          {"value", 91.5},
                          {"epoch", 2.0},
                          {"train_ns", 4 * kSecond}});
      }
      events.push_back(
          {{"event", "end"}, {"end_ns", 6 * kSecond}, {"weights_sha256", kHash}, {"peak_rss", 2000 + rank}});
      std::vector<StepRecord> steps = {step_record(0, 10, kSecond), step_record(10, 10, 3 * kSecond)};
      // Rank 1 waits 0.2 s in each of the first ten.
      for (int64_t& ns : std::span(steps[0].exchange_ns).first(10)) ns = kSecond / 10 + rank * kSecond / 5;
      write_spool(folder_.path(), 1, rank, steps, events, start);
    }
  }

  Json build() const { return to_json(build_record(spec_, progress_)); }

  TemporaryFolder folder_;
  spec::RunSpec spec_;
  RunProgress progress_;
};

TEST_F(BuildRecord, TargetLossIsOfOfficialDataAlone) {
  spec_.task.task.goal.target_loss = 0.2828;
  EXPECT_FALSE(build()["goal"].contains("target_loss")) << "the data are not known yet";
  one_finished_segment();
  EXPECT_EQ(build()["goal"]["target_loss"], 0.2828);
  spec_.limits.light = true;
  EXPECT_FALSE(build()["goal"].contains("target_loss"));
  spec_.limits.light = false;
  write_spool(folder_.path(), 1, 0, {step_record(0, 10, kSecond)},
              {Json{{"event", "prepared"}, {"data", {{"official", false}}}}}, micros("2026-01-31T12:00:01.000000Z"));
  EXPECT_FALSE(build()["goal"].contains("target_loss"));
}

TEST_F(BuildRecord, TakesOverWhatRankZeroSaysOfTheFigures) {
  one_finished_segment();
  write_spool(folder_.path(), 1, 0, {step_record(0, 10, kSecond)},
              {Json{{"event", "begin"}, {"notes", {"it is slow"}}}}, micros("2026-01-31T12:00:01.000000Z"));
  EXPECT_EQ(build()["notes"][0], "it is slow");
}

TEST_F(BuildRecord, ACommandIsJudgedByTheGoalThatItDeclares) {
  spec::set_command(spec_, {{"python3", "train.py"}});
  const std::vector<spec::Override> goal = spec::goal_overrides("Prec@1>=80", spec::find_task("2a", "", "", {}).task);
  spec::declare(spec_, spec::find_task("2a", "", "", goal), goal, "epsilon-sample");
  progress_.state = RunState::kRunning;
  progress_.started_at = kStamp;
  Json record = build();
  EXPECT_EQ(record["task"], "2a");
  EXPECT_EQ(record["rules"], "2021");
  EXPECT_EQ(record["division"], "custom");
  EXPECT_EQ(record["task_hash"], spec_.task.hash);
  EXPECT_EQ(record["problem_hash"].get<std::string>().size(), 64U);
  EXPECT_EQ(record["algorithm"], nullptr);
  EXPECT_EQ(record["data"]["name"], "epsilon-sample");
  EXPECT_EQ(record["custom"]["declared"], Json::parse(R"({"task": "2a", "rules": "2021", "variant": null,
    "data": "epsilon-sample", "goal": "Prec@1>=80"})"));
  EXPECT_EQ(record["goal"]["reached"], false);
  EXPECT_EQ(record["goal"]["target"], 80);
  EXPECT_EQ(record["throughput"]["samples"], nullptr);
  EXPECT_TRUE(record["notes"].empty()) << "it is not over";
  progress_.state = RunState::kFinished;
  EXPECT_EQ(build()["notes"][0],
            "the declared goal Prec@1>=80 was missed: no Prec@1 on test data was recorded, under the name "
            "val_global_Prec@1");

  const auto tell = [&](int64_t rank, const std::string& line) {
    std::filesystem::create_directories(folder_.path() / "metrics");
    std::ofstream(tracker_lines_path(folder_.path(), rank), std::ios::app) << line << "\n";
  };
  tell(0, R"({"step":10,"train_s":2,"samples":1000,"values":{"val_global_Prec@1":79.5}})");
  tell(1, R"({"step":10,"train_s":2.5,"samples":900,"values":{"val_Prec@1":99}})");
  record = build();
  EXPECT_EQ(record["notes"][0], "the declared goal Prec@1>=80 was missed: the best Prec@1 is 79.5");
  EXPECT_EQ(record["throughput"]["samples"], 1900);
  EXPECT_EQ(record["throughput"]["samples_per_s"], 950);
  tell(0, R"({"step":20,"epoch":2,"train_s":4,"samples":2000,"values":{"val_global_Prec@1":81}})");
  record = build();
  EXPECT_TRUE(record["notes"].empty());
  EXPECT_EQ(record["goal"]["reached"], true);
  EXPECT_EQ(record["goal"]["train_s"], 4);
  EXPECT_EQ(record["goal"]["best"]["value"], 81);

  spec::set_command(spec_, {{"python3", "train.py"}});
  record = build();
  EXPECT_EQ(record["goal"], nullptr) << "the script claims none";
  EXPECT_FALSE(record["custom"].contains("declared"));
  EXPECT_EQ(record["problem_hash"], nullptr);
}

TEST_F(BuildRecord, QueuedRunHasAllFieldsAndNoMeasurements) {
  const Json record = build();
  EXPECT_EQ(record["state"], "queued");
  EXPECT_EQ(record["started_at"], nullptr);
  EXPECT_EQ(record["exit_codes"], nullptr);
  EXPECT_EQ(
      record["clocks"],
      (Json{{"queue_s", 0.0}, {"wall_s", 0.0}, {"prepare_s", nullptr}, {"train_s", 0.0}, {"train_legacy_s", 0.0}}));
  EXPECT_EQ(record["placement"], nullptr);
  EXPECT_EQ(record["throughput"]["samples_per_s"], nullptr);
  EXPECT_EQ(record["throughput"]["median_samples_per_s"], nullptr);
  EXPECT_EQ(record["goal"]["target"], 91.5);
  EXPECT_EQ(record["goal"]["reached"], false);
  EXPECT_EQ(record["goal"]["value"], nullptr);
  EXPECT_TRUE(record["evaluations"].empty());
  EXPECT_EQ(record["weights_sha256"], nullptr);
  EXPECT_EQ(record["failure"], nullptr);
}

TEST_F(BuildRecord, FinishedRun) {
  one_finished_segment();
  const Json record = build();
  EXPECT_EQ(record["state"], "finished");
  EXPECT_EQ(record["task"], "fashion-mnist");
  EXPECT_EQ(record["rules"], nullptr);
  EXPECT_EQ(record["division"], "closed");
  EXPECT_EQ(record["exit_codes"], (Json{0, 0}));
  EXPECT_EQ(record["comm_stack"], "timeline(gloo)");
  EXPECT_EQ(record["parameters"], 3274634);
  EXPECT_EQ(record["weights_sha256"], kHash);
  EXPECT_EQ(record["effective"]["fused"], false);
  EXPECT_EQ(record["effective"]["layout"], nullptr);
  EXPECT_EQ(record["environment"]["libraries"]["libtorch"], "2.15.0");
  EXPECT_EQ(record["data"]["fingerprint"], "abc");
  EXPECT_EQ(record["data"]["name"], "fashion-mnist");

  // 4 s: a fifth waiting for batches, a tenth writing checkpoints.
  EXPECT_EQ(record["clocks"],
            (Json{{"queue_s", 1.5}, {"wall_s", 8.0}, {"prepare_s", 0.25}, {"train_s", 4.0}, {"train_legacy_s", 2.8}}));
  EXPECT_DOUBLE_EQ(record["steps_s"]["batch_load"], 0.8);
  EXPECT_DOUBLE_EQ(record["steps_s"]["checkpoint"], 0.4);
  EXPECT_DOUBLE_EQ(record["steps_s"]["backprop"], 2.8);
  EXPECT_EQ(record["steps_s"]["agg"], 0.0);
  EXPECT_EQ(record["exchange"], (Json{{"wait_s", {0.0, 2.0}},
                                      {"transfer_s", {1.0, 1.0}},
                                      {"exposed_s", {1.0, 3.0}},
                                      {"hidden_s", {0.0, 0.0}},
                                      {"exact", true},
                                      {"steps", 20}}));

  EXPECT_EQ(record["throughput"]["samples"], 400);
  EXPECT_EQ(record["throughput"]["steps"], 20);
  EXPECT_EQ(record["throughput"]["samples_per_s"], 100.0);
  // 10 steps at 200 samples/s and 10 at 66.7: the mean of both.
  EXPECT_DOUBLE_EQ(record["throughput"]["median_samples_per_s"], (200 + 200.0 / 3) / 2);
  EXPECT_EQ(record["throughput"]["peak_rss"], 2001);

  Json goal = record["goal"];
  EXPECT_EQ(goal["steps_s"], record["steps_s"]) << "it ended there";
  EXPECT_EQ(goal["exchange"], record["exchange"]);
  for (const char* sums : {"steps_s", "exchange"}) goal.erase(sums);
  EXPECT_EQ(goal, (Json{{"metric", "Prec@1"},
                        {"split", "test"},
                        {"target", 91.5},
                        {"higher_is_better", true},
                        {"reached", true},
                        {"value", 91.5},
                        {"epoch", 2.0},
                        {"step", 20},
                        {"train_s", 4.0},
                        {"best", {{"value", 91.5}, {"epoch", 2.0}, {"step", 20}, {"train_s", 4.0}}}}));
  ASSERT_EQ(record["evaluations"].size(), 2U);
  const Json& first = record["evaluations"][0];
  EXPECT_EQ(first["step"], 10);
  EXPECT_EQ(first["samples"], 200);
  EXPECT_EQ(first["train_s"], 1.0);
  EXPECT_EQ(first["wall_s"], 3.0);  // rank 0's clock started 1 s after the launch
  EXPECT_EQ(first["duration_s"], 0.5);
  EXPECT_EQ(first["cadence"], true);
  EXPECT_EQ(first["elapsed_s"], 1.5);
  EXPECT_EQ(record["evaluations"][1]["elapsed_s"], 5.0);
  EXPECT_EQ(first["metrics"]["Prec@1"], 84);
  ASSERT_EQ(record["epochs"].size(), 1U);
  EXPECT_EQ(record["epochs"][0]["train_loss"], 0.5);
  EXPECT_EQ(record["epochs"][0]["train_s"], 1.0);
}

// Rank 1 waits for data for 0.2 s of each second, and rank 0 for rank 1.
TEST_F(BuildRecord, WaitingForDataIsThatOfEachRank) {
  one_finished_segment();
  StepRecord fed = step_record(0, 10, kSecond);
  std::swap(fed.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)],
            fed.kinds_ns[static_cast<size_t>(StepKind::kAggregate)]);
  for (const int64_t segment : {1, 2}) {
    write_spool(folder_.path(), segment, 0, {fed}, {});
    write_spool(folder_.path(), segment, 1, {step_record(0, 10, kSecond)}, {});
  }
  const Json record = build();
  EXPECT_EQ(record["waited_for_data_s"], (Json{0.0, 0.4}));
  EXPECT_EQ(record["steps_s"]["batch_load"], 0.0) << "that is rank 0's";
  if (SchemaValidator::missing().empty()) {
    EXPECT_EQ(SchemaValidator("run.schema.json").complaint(record), "");
  }
  for (const int64_t segment : {1, 2}) write_spool(folder_.path(), segment, 1, {}, {});
  EXPECT_EQ(build()["waited_for_data_s"], nullptr) << "rank 1's is not known";
}

TEST_F(BuildRecord, ResumedRunAddsClocksAndTakesTheLaterCurve) {
  one_finished_segment();
  resume_at_step_10();
  const Json record = build();
  EXPECT_EQ(record["clocks"]["train_s"], 8.0);
  EXPECT_EQ(record["throughput"]["steps"], 40);  // ten of them done twice
  EXPECT_EQ(record["exit_codes"], (Json{0, 0}));
  EXPECT_EQ(record["weights_sha256"], nullptr);  // of the last segment, which has not ended

  ASSERT_EQ(record["evaluations"].size(), 3U);
  const Json& again = record["evaluations"][1];
  EXPECT_EQ(again["step"], 20);
  EXPECT_EQ(again["metrics"]["Prec@1"], 90);
  EXPECT_EQ(again["segment"], 2);
  EXPECT_EQ(again["train_s"], 6.0);         // 4 + 2
  EXPECT_EQ(again["elapsed_s"], 7.5);       // and three evaluations
  EXPECT_EQ(again["wall_s"], 8 + 0.5 + 3);  // gap left out: it stands in lost_s

  ASSERT_EQ(record["segments"].size(), 2U);
  EXPECT_EQ(record["segments"][0]["exit_codes"], (Json{nullptr, 9}));
  EXPECT_EQ(record["segments"][0]["train_s"], 4.0);
  EXPECT_EQ(record["segments"][1]["start_step"], 10);
  EXPECT_EQ(record["segments"][1]["lost_s"], 52.0);
  EXPECT_EQ(record["segments"][1]["train_s"], 4.0);
}

TEST_F(BuildRecord, UnreachedGoalShowsTheBestValue) {
  write_spool(folder_.path(), 1, 0, {step_record(0, 30, kSecond)},
              {evaluation(10, 80, 1, 1), evaluation(20, 83, 2, 2), evaluation(30, 82, 3, 3)});
  spec_.limits.light = true;
  const Json goal = build()["goal"];
  EXPECT_EQ(goal["target"], 85);
  EXPECT_EQ(goal["reached"], false);
  EXPECT_EQ(goal["value"], 83);
  EXPECT_EQ(goal["step"], 20);
}

// A run to the end: the goal's time is that of its moment; the best value comes later, at a limit.
TEST_F(BuildRecord, TheBestValueIsThatOfTheWholeRun) {
  Json last = evaluation(25, 92.5, 5 * kSecond, 8 * kSecond);
  last["cadence"] = false;
  write_spool(folder_.path(), 1, 0, {step_record(0, 25, 5 * kSecond)},
              {evaluation(20, 91.5, 4 * kSecond, 5 * kSecond),
               {{"event", "goal"}, {"step", 20}, {"value", 91.5}, {"epoch", 2.0}, {"train_ns", 4 * kSecond}},
               last,
               {{"event", "end"}, {"step", 25}, {"reason", "max_steps"}}});
  spec_.limits.to_the_end = true;
  const Json record = build();
  EXPECT_EQ(record["limits"]["to_the_end"], true);
  EXPECT_EQ(record["stop_reason"], "max_steps");
  EXPECT_EQ(record["goal"]["reached"], true);
  EXPECT_EQ(record["goal"]["value"], 91.5);
  EXPECT_EQ(record["goal"]["train_s"], 4.0);
  EXPECT_EQ(record["goal"]["best"], (Json{{"value", 92.5}, {"epoch", 2.5}, {"step", 25}, {"train_s", 5.0}}));
  EXPECT_EQ(record["evaluations"][0]["cadence"], true);
  EXPECT_EQ(record["evaluations"][1]["cadence"], false);
}

// A run that is resumed and goes on past its goal: 10 steps in 4 s, then 5 of 15 steps in 2 s of 8 s.
TEST_F(BuildRecord, AGoalHasTheSumsUpToIt) {
  progress_.segments.push_back({1, 0, "", "", 0, {}});
  progress_.segments.push_back({2, 10, "", "", 0, {}});
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto exchanging = [&](StepRecord step) {
      for (uint64_t i = 0; i < step.count; ++i) step.exchange_ns[i] = kSecond / 10 * (2 - rank);
      return step;
    };
    std::vector<Json> events;
    if (rank == 0) {
      events = {evaluation(15, 91.5, 2 * kSecond, 3 * kSecond),
                {{"event", "goal"}, {"step", 15}, {"value", 91.5}, {"epoch", 1.5}, {"train_ns", 2 * kSecond}}};
    }
    write_spool(folder_.path(), 1, rank, {exchanging(step_record(0, 10, 4 * kSecond))}, {});
    write_spool(folder_.path(), 2, rank,
                {exchanging(step_record(10, 5, 2 * kSecond)), exchanging(step_record(15, 10, 6 * kSecond))}, events);
  }
  spec_.limits.to_the_end = true;
  const Json record = build();
  const Json& goal = record["goal"];
  EXPECT_EQ(goal["train_s"], 6.0);
  EXPECT_DOUBLE_EQ(goal["steps_s"]["batch_load"].get<double>(), 1.2);
  EXPECT_DOUBLE_EQ(goal["steps_s"]["backprop"].get<double>(), 4.2);
  EXPECT_DOUBLE_EQ(record["steps_s"]["backprop"].get<double>(), 8.4);
  EXPECT_EQ(goal["exchange"]["steps"], 15);
  EXPECT_DOUBLE_EQ(goal["exchange"]["wait_s"][0].get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(goal["exchange"]["transfer_s"][0].get<double>(), 1.5);
  EXPECT_EQ(record["exchange"]["steps"], 25);
  if (SchemaValidator::missing().empty()) {
    EXPECT_EQ(SchemaValidator("run.schema.json").complaint(record), "");
  }
}

TEST_F(BuildRecord, StorageIsThatOfAllRanks) {
  const auto begin = [](const Json& storage) { return Json{{"event", "begin"}, {"storage", storage}}; };
  const auto storage_of = [&](const Json& first, const Json& second) {
    write_spool(folder_.path(), 1, 0, {step_record(0, 15, kSecond)}, {first});
    write_spool(folder_.path(), 1, 1, {step_record(0, 15, kSecond)}, {second});
    return build()["storage"];
  };
  const Json local = begin({{"data", "local"}, {"run", "local"}}), shared = begin({{"data", "nfs"}, {"run", "nfs"}});
  EXPECT_EQ(storage_of(local, local)["kind"], "local");
  EXPECT_EQ(storage_of(shared, shared)["kind"], "nfs");
  EXPECT_EQ(storage_of(begin({{"data", "nfs"}, {"run", "local"}}), begin({{"data", "nfs"}, {"run", "local"}}))["kind"],
            "data nfs, run local");
  EXPECT_EQ(storage_of(local, shared)["kind"], "local + nfs");
  const Json half = storage_of(local, begin({{"data", nullptr}, {"run", "local"}}));
  EXPECT_EQ(half["kind"], "not known");
  EXPECT_EQ(half["data"], nullptr);
  EXPECT_EQ(half["run"], "local");
  EXPECT_EQ(storage_of(local, {{"event", "begin"}})["kind"], "not known") << "it did not say";
  EXPECT_EQ(storage_of(local, local)["endpoint"], nullptr);
  const Json stored = begin({{"data", "s3"}, {"run", "local"}, {"endpoint", "https://store"}});
  const Json storage = storage_of(stored, stored);
  EXPECT_EQ(storage["kind"], "data s3, run local");
  EXPECT_EQ(storage["endpoint"], "https://store");
}

TEST_F(BuildRecord, ReadsFromAnObjectStoreAreThoseOfAllRanks) {
  one_finished_segment();
  const auto end_of = [](int64_t bytes) {
    return Json{{"event", "end"},        {"end_ns", 2},         {"objects", 12},          {"object_bytes", bytes},
                {"object_requests", 30}, {"object_retries", 1}, {"object_cache_hits", 5}, {"object_cache_bytes", 70}};
  };
  write_spool(folder_.path(), 1, 0, {step_record(0, 15, kSecond)}, {end_of(1000)});
  write_spool(folder_.path(), 1, 1, {step_record(0, 15, kSecond)}, {end_of(200)});
  const Json storage = build()["storage"];
  EXPECT_EQ(storage["objects"], 12) << "each rank lists the same";
  EXPECT_EQ(storage["bytes"], 1200);
  EXPECT_EQ(storage["requests"], 60);
  EXPECT_EQ(storage["retries"], 2);
  EXPECT_EQ(storage["cache_hits"], 10);
  EXPECT_EQ(storage["cache_bytes"], 140);
}

TEST_F(BuildRecord, BadImagesAreCountedOnceOverRanksAndSegments) {
  one_finished_segment();
  EXPECT_FALSE(build()["data"].contains("bad_images")) << "none was allowed";
  spec_.max_bad = 50;
  EXPECT_EQ(build()["data"]["bad_images"], (Json{{"allowed", 50}, {"count", 0}, {"first", Json::array()}}));

  progress_.segments.push_back(progress_.segments.front());
  progress_.segments.back().index = 2;
  const auto bad = [](const char* split, int64_t sample) {
    return Json{{"event", "bad_image"},   {"end_ns", 1},      {"step", 3},         {"split", split}, {"sample", sample},
                {"stand_in", sample + 1}, {"image", "a.jpg"}, {"message", "empty"}};
  };
  write_spool(folder_.path(), 1, 0, {step_record(0, 15, kSecond)}, {bad("train", 12), bad("test", 12)});
  write_spool(folder_.path(), 1, 1, {step_record(0, 15, kSecond)}, {bad("train", 9)});
  write_spool(folder_.path(), 2, 0, {step_record(15, 1, kSecond)}, {bad("train", 9), bad("train", 100)});
  write_spool(folder_.path(), 2, 1, {step_record(15, 1, kSecond)}, {});
  Json images = build()["data"]["bad_images"];
  EXPECT_EQ(images["count"], 4);
  ASSERT_EQ(images["first"].size(), 4U);
  EXPECT_EQ(images["first"][0],
            (Json{{"split", "test"}, {"sample", 12}, {"stand_in", 13}, {"image", "a.jpg"}, {"message", "empty"}}));
  for (const size_t i : {1, 2, 3}) {
    EXPECT_EQ(images["first"][i]["sample"], std::vector<int64_t>({12, 9, 12, 100})[i]);
    EXPECT_EQ(images["first"][i]["split"], "train");
  }
  if (SchemaValidator::missing().empty()) {
    EXPECT_EQ(SchemaValidator("run.schema.json").complaint(build()), "");
  }

  std::vector<Json> many;
  for (int64_t sample = 0; sample < 30; ++sample) many.push_back(bad("train", 29 - sample));
  write_spool(folder_.path(), 2, 1, {step_record(15, 1, kSecond)}, many);
  images = build()["data"]["bad_images"];
  EXPECT_EQ(images["count"], 32) << "0 to 29 and 100 of one split, 12 of the other";
  ASSERT_EQ(images["first"].size(), 20U) << "a record stays small";
  EXPECT_EQ(images["first"][19]["sample"], 18);
}

TEST_F(BuildRecord, ReadsOfASegmentThatFailedAreKnownUnlessARankWasKilled) {
  one_finished_segment();
  progress_.segments.push_back(progress_.segments.front());
  progress_.segments.back().index = 2;
  const auto word_of = [](const char* event, int64_t bytes) {
    return Json{{"event", event}, {"end_ns", 2}, {"objects", 12}, {"object_bytes", bytes}, {"call_read_bytes", bytes}};
  };
  // The watchdog says a failure, and then the end.
  write_spool(folder_.path(), 1, 0, {step_record(0, 15, kSecond)}, {word_of("failure", 1000)});
  write_spool(folder_.path(), 1, 1, {step_record(0, 15, kSecond)}, {word_of("failure", 150), word_of("end", 200)});
  write_spool(folder_.path(), 2, 0, {step_record(15, 1, kSecond)}, {word_of("end", 30)});
  write_spool(folder_.path(), 2, 1, {step_record(15, 1, kSecond)}, {word_of("end", 4)});
  Json storage = build()["storage"];
  EXPECT_EQ(storage["bytes"], 1234);
  EXPECT_EQ(storage["call_read_bytes"], 1234);

  write_spool(folder_.path(), 1, 1, {step_record(0, 15, kSecond)}, {});
  storage = build()["storage"];
  EXPECT_EQ(storage["bytes"], nullptr) << "rank 1 said nothing";
  EXPECT_FALSE(storage.contains("call_read_bytes"));
  EXPECT_EQ(storage["objects"], 12) << "each rank lists the same";
}

TEST_F(BuildRecord, AValueAtALimitReachesNothing) {
  Json last = evaluation(15, 95, kSecond, 2 * kSecond);
  last["cadence"] = false;
  write_spool(folder_.path(), 1, 0, {step_record(0, 15, kSecond)}, {last});
  const Json goal = build()["goal"];
  EXPECT_EQ(goal["reached"], false);
  EXPECT_EQ(goal["value"], 95);
  EXPECT_EQ(goal["best"]["value"], 95);
}

TEST_F(BuildRecord, OnlyAnEndByItselfHasAReason) {
  EXPECT_EQ(build()["stop_reason"], nullptr);
  write_spool(folder_.path(), 1, 0, {step_record(0, 15, kSecond)},
              {{{"event", "end"}, {"step", 15}, {"reason", "supervisor_lost"}}});
  EXPECT_EQ(build()["stop_reason"], nullptr);
}

TEST_F(BuildRecord, GoalOnTheTrainingSplitReadsTheEpochs) {
  spec_.task.task.goal = {"loss", "train", 0.3, 0.4, false};
  write_spool(folder_.path(), 1, 0, {step_record(0, 30, kSecond)},
              {evaluation(10, 99, 1, 1),
               {{"event", "epoch"}, {"step", 10}, {"epoch", 1}, {"metrics", {{"loss", 0.5}}}},
               {{"event", "epoch"}, {"step", 20}, {"epoch", 2}, {"metrics", {{"loss", 0.45}}}}});
  const Json goal = build()["goal"];
  EXPECT_EQ(goal["higher_is_better"], false);
  EXPECT_EQ(goal["value"], 0.45);
  EXPECT_EQ(goal["epoch"], 2);
}

TEST_F(BuildRecord, ThroughputRunHasNoGoal) {
  spec_.fixed_batch = true;
  spec_.division = division_of(spec_);
  const Json record = build();
  EXPECT_EQ(record["goal"], nullptr);
  EXPECT_EQ(record["division"], "throughput");
}

TEST_F(BuildRecord, MedianRateIsWeightedByTheNumberOfSteps) {
  spec_.workers = 1;
  // 100/s for 1 step, 10/s for 25 steps, 20/s for 24: half of 50 steps lies exactly between the last two.
  const auto rates = [&](uint32_t slow) {
    write_spool(folder_.path(), 1, 0,
                {step_record(0, 1, kSecond / 10), step_record(1, slow, slow * kSecond),
                 step_record(1 + slow, 24, 12 * kSecond)},
                {});
    return build()["throughput"]["median_samples_per_s"].get<double>();
  };
  EXPECT_DOUBLE_EQ(rates(25), 15);
  EXPECT_DOUBLE_EQ(rates(24), 20);
  EXPECT_DOUBLE_EQ(rates(26), 10);
}

TEST_F(BuildRecord, FailureNamesTheCulprit) {
  progress_.state = RunState::kFailed;
  progress_.failure = Failure{"rank_died", 1, "node7", "all_reduce", 42, "killed by signal 9", {"last", "lines"}};
  EXPECT_EQ(build()["failure"], (Json{{"kind", "rank_died"},
                                      {"rank", 1},
                                      {"host", "node7"},
                                      {"operation", "all_reduce"},
                                      {"sequence", 42},
                                      {"message", "killed by signal 9"},
                                      {"log_tail", {"last", "lines"}}}));
  progress_.failure = Failure{};
  EXPECT_EQ(build()["failure"]["rank"], nullptr);
  EXPECT_EQ(build()["failure"]["sequence"], nullptr);
}

TEST_F(BuildRecord, AnotherRunsSpoolIsNamedAndNotCounted) {
  one_finished_segment();
  std::ofstream(folder_.path() / "spec.json") << R"({"identity": "0123456789abcdef0123456789abcdef"})";
  write_spool(folder_.path(), 1, 0, {step_record(0, 30, 10, 10)}, {}, 5, std::string(32, 'b'));
  const Json record = build();
  EXPECT_THAT(record["notes"].dump(), HasSubstr("of another run (" + std::string(32, 'b')));
  EXPECT_EQ(record["segments"][0]["steps"], 0);
}

TEST_F(BuildRecord, DamagedSpoolIsANoteAndNoError) {
  one_finished_segment();
  std::ofstream(steps_path(folder_.path(), 1, 1)) << std::string(1000, 'x');
  const Json record = build();
  ASSERT_EQ(record["notes"].size(), 1U);
  EXPECT_THAT(record["notes"][0].get<std::string>(), HasSubstr("measurements lost"));
  EXPECT_EQ(record["clocks"]["train_s"], 4.0);
  EXPECT_EQ(record["exchange"], nullptr);
}

TEST_F(BuildRecord, RanksWithDifferentWeightsAreANote) {
  one_finished_segment();
  write_spool(folder_.path(), 1, 1, {}, {{{"event", "end"}, {"weights_sha256", "beef"}}});
  const Json record = build();
  EXPECT_EQ(record["weights_sha256"], nullptr);
  EXPECT_THAT(record["notes"].dump(), HasSubstr("2 different weights_sha256"));
}

TEST_F(BuildRecord, SkippedStepsAndAveragedWeightsAreNotesAndNormsAreOfEpochs) {
  one_finished_segment();
  EXPECT_FALSE(build()["epochs"][0].contains("gradient_norm"));
  const size_t notes = build()["notes"].size();
  std::vector<Json> events = {
      {{"event", "loss_scale"}, {"end_ns", 1}, {"step", 5}, {"loss_scale", 512.0}, {"skipped_steps", 1}},
      {{"event", "averaging"}, {"end_ns", 2}, {"step", 10}},
      {{"event", "epoch"}, {"end_ns", 3}, {"step", 10}, {"epoch", 1}, {"gradient_norm", 0.75}, {"clipped_steps", 4}}};
  const auto write = [&] {
    write_spool(folder_.path(), 1, 0, {step_record(0, 10, kSecond)}, events, micros("2026-01-31T12:00:01.000000Z"));
    return build();
  };
  Json record = write();
  EXPECT_EQ(record["epochs"][0]["gradient_norm"], 0.75);
  EXPECT_EQ(record["epochs"][0]["clipped_steps"], 4);
  ASSERT_GE(record["notes"].size(), notes + 2) << record["notes"];  // ranks of different lengths are another one
  EXPECT_EQ(record["notes"][notes], "steps skipped, as their gradients overflowed: 1; loss scale 512");
  EXPECT_EQ(record["notes"][notes + 1], "weights are averaged from step 10 on");
  events.push_back({{"event", "end"}, {"end_ns", 4}, {"loss_scale", 2048.0}, {"skipped_steps", 3}});
  EXPECT_EQ(write()["notes"][notes], "steps skipped, as their gradients overflowed: 3; loss scale 2048");
}

TEST_F(BuildRecord, BytesReadAreSumsOverRanksWhereAllSaySo) {
  one_finished_segment();
  const auto write = [&](int64_t rank, std::optional<int64_t> devices) {
    Json epoch = {{"event", "epoch"}, {"end_ns", 1}, {"step", 10}, {"epoch", 1}, {"call_read_bytes", 7}};
    Json end = {{"event", "end"}, {"end_ns", 2}, {"call_read_bytes", 70}};
    if (devices) {
      epoch["device_read_bytes"] = *devices;
      end["device_read_bytes"] = 10 * *devices;
    }
    write_spool(folder_.path(), 1, rank, {step_record(0, 10, kSecond)}, {epoch, end},
                micros("2026-01-31T12:00:01.000000Z"));
  };
  write(0, 100);
  write(1, 20);
  Json record = build();
  EXPECT_EQ(record["epochs"][0]["device_read_bytes"], 120);
  EXPECT_EQ(record["epochs"][0]["call_read_bytes"], 14);
  EXPECT_EQ(record["storage"]["device_read_bytes"], 1200);
  EXPECT_EQ(record["storage"]["call_read_bytes"], 140);

  write(1, std::nullopt);
  record = build();
  EXPECT_FALSE(record["epochs"][0].contains("device_read_bytes")) << "rank 1 does not say";
  EXPECT_EQ(record["epochs"][0]["call_read_bytes"], 14);
  EXPECT_FALSE(record["storage"].contains("device_read_bytes"));
}

TEST_F(BuildRecord, AnEpochHasTheBytesOfStoreAndCacheAndTheRingOfAllRanks) {
  one_finished_segment();
  const auto ring = [](int64_t takes, int64_t waits, double mean_fill, int64_t min_fill) {
    return Json{{"capacity", 3}, {"takes", takes}, {"waits", waits}, {"mean_fill", mean_fill}, {"min_fill", min_fill}};
  };
  const auto write = [&](int64_t rank, const Json& of_epoch, const Json& of_segment) {
    Json epoch = {{"event", "epoch"}, {"end_ns", 1},       {"step", 10},
                  {"epoch", 1},       {"object_bytes", 7}, {"object_cache_bytes", 5}};
    Json end = {{"event", "end"}, {"end_ns", 2}};
    if (!of_epoch.is_null()) epoch["ring"] = of_epoch;
    if (!of_segment.is_null()) end["ring"] = of_segment;
    write_spool(folder_.path(), 1, rank, {step_record(0, 10, kSecond)}, {epoch, end},
                micros("2026-01-31T12:00:01.000000Z"));
  };
  write(0, ring(10, 1, 2.5, 0), ring(30, 1, 2.5, 0));
  write(1, ring(30, 0, 2.9, 2), ring(10, 0, 0.5, 1));
  Json record = build();
  const Json epoch = record["epochs"][0];
  EXPECT_EQ(epoch["object_bytes"], 14);
  EXPECT_EQ(epoch["object_cache_bytes"], 10);
  EXPECT_EQ(epoch["ring"]["takes"], 40);
  EXPECT_EQ(epoch["ring"]["waits"], 1);
  EXPECT_DOUBLE_EQ(epoch["ring"]["mean_fill"].get<double>(), 2.8);
  EXPECT_EQ(epoch["ring"]["min_fill"], 0);
  EXPECT_EQ(record["ring"]["capacity"], 3);
  EXPECT_DOUBLE_EQ(record["ring"]["mean_fill"].get<double>(), 2.0);
  EXPECT_TRUE(epoch["accelerator_utilisation"].is_number());
  if (SchemaValidator::missing().empty()) {
    EXPECT_EQ(SchemaValidator("run.schema.json").complaint(record), "");
  }

  write(1, {{"capacity", "many"}}, nullptr);
  record = build();
  EXPECT_FALSE(record["epochs"][0].contains("ring")) << "rank 1 says nothing that can be read";
  EXPECT_EQ(record["ring"], nullptr);
  EXPECT_EQ(record["epochs"][0]["object_bytes"], 14);
}

TEST_F(BuildRecord, AnEpochsUtilisationIsThatOfItsSteps) {
  one_finished_segment();
  const auto step = [](uint64_t number, uint64_t epoch, int64_t waits_ns) {
    StepRecord record = step_record(number, 1, kSecond);
    record.epoch = epoch;
    record.kinds_ns = {};
    record.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)] = waits_ns;
    record.kinds_ns[static_cast<size_t>(StepKind::kForward)] = 100;
    record.kinds_ns[static_cast<size_t>(StepKind::kBackward)] = 200;
    record.kinds_ns[static_cast<size_t>(StepKind::kAggregate)] = 5000;
    return record;
  };
  const auto ends = [](int64_t epoch) {
    return Json{{"event", "epoch"}, {"end_ns", epoch}, {"step", epoch}, {"epoch", epoch}};
  };
  write_spool(folder_.path(), 1, 0, {step(0, 0, 900), step(1, 1, 0), step(2, 2, 100)}, {ends(1), ends(2)});
  Json epochs = build()["epochs"];
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_DOUBLE_EQ(epochs[0]["accelerator_utilisation"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(epochs[1]["accelerator_utilisation"].get<double>(), 1.0);

  const Json begin = {{"event", "begin"}, {"effective", {{"name", "torch"}, {"device", "cuda:0"}}}};
  write_spool(folder_.path(), 1, 0, {step(0, 0, 900), step(1, 1, 0)}, {begin, ends(1)});
  EXPECT_FALSE(build()["epochs"][0].contains("accelerator_utilisation")) << "the host sees no end of a pass";
  spec_.emulated_step_s = 0.1;
  EXPECT_TRUE(build()["epochs"][0].contains("accelerator_utilisation"));
}

TEST_F(BuildRecord, ChecksAreSumsOverRanksUnlessOneWasKilled) {
  one_finished_segment();
  const auto write = [&](int64_t rank, const std::vector<Json>& events) {
    write_spool(folder_.path(), 1, rank, {step_record(0, 15, kSecond)}, events);
  };
  const auto end = [](const Json& checks) {
    Json event = {{"event", "end"}, {"end_ns", 2}};
    if (!checks.is_null()) event["checks"] = checks;
    return event;
  };
  const auto checked = [](int64_t bytes, double seconds) { return Json{{"bytes", bytes}, {"seconds", seconds}}; };
  write(0, {end({{"images", checked(100, 0.5)}, {"records", checked(7000, 2)}})});
  write(1, {end({{"images", checked(50, 0.25)}})});
  EXPECT_EQ(build()["storage"]["checks"], (Json{{"images", checked(150, 0.75)}, {"records", checked(7000, 2.0)}}));
  write(1, {end(nullptr)});
  EXPECT_EQ(build()["storage"]["checks"]["images"], checked(100, 0.5)) << "it compared nothing";
  write(1, {});
  EXPECT_FALSE(build()["storage"].contains("checks")) << "it was killed";
}

TEST_F(BuildRecord, StepsByStalenessAreSumsOverRanks) {
  one_finished_segment();
  const auto write = [&](int64_t rank, const Json& counts) {
    write_spool(folder_.path(), 1, rank, {step_record(0, 10, kSecond)},
                {{{"event", "end"}, {"end_ns", 2}, {"staleness", counts}}}, micros("2026-01-31T12:00:01.000000Z"));
  };
  write(0, Json::array());
  write(1, Json::array());
  EXPECT_FALSE(build()["exchange"].contains("staleness")) << "nobody's weights can be stale";
  write(0, {7, 3, 0});
  write(1, {1, 5, 4});
  EXPECT_EQ(build()["exchange"]["staleness"], (Json{8, 8, 4}));
}

TEST_F(BuildRecord, SegmentThatTheSupervisorDidNotWriteDownIsSeen) {
  one_finished_segment();
  progress_.segments.clear();
  EXPECT_EQ(build()["clocks"]["train_s"], 4.0);
  EXPECT_EQ(build()["exit_codes"], nullptr);
}

TEST_F(BuildRecord, TellsTheAlgorithmAndHowItsRatesWereChosen) {
  const std::vector<spec::Override> overrides = {{"optimizer.compression", "top_k"}, {"optimizer.share", "0.1"}};
  set_task(spec_, spec::find_task("fashion-mnist", "", "", overrides), overrides);
  Json record = build();
  EXPECT_EQ(record["algorithm"]["coder"], "top_k");
  EXPECT_EQ(record["algorithm"]["options"]["share"], 0.1);
  EXPECT_EQ(record["algorithm"]["rates"], "task_for_another");
  EXPECT_EQ(record["problem_hash"].get<std::string>().size(), 64U);
  spec_.task.task.schedule.tuned_trials = 7;
  record = build();
  EXPECT_EQ(record["algorithm"]["rates"], "tuned");
  EXPECT_EQ(record["algorithm"]["tuned_trials"], 7);
}

// A later program, or a damaged specification, names such an algorithm.
TEST_F(BuildRecord, AnAlgorithmThatIsNotKnownIsNotedAndNothingElseIsLost) {
  spec_.task.task.optimizer.name = "later";
  Json record = build();
  EXPECT_EQ(record["algorithm"], nullptr);
  EXPECT_THAT(record["notes"].dump(), HasSubstr("the algorithm is not known: unknown optimizer 'later'"));
  spec_.task.canonical = nullptr;
  record = build();
  EXPECT_EQ(record["problem_hash"], nullptr);
  EXPECT_EQ(record["name"], "r-2");
}

TEST_F(BuildRecord, WhatTheSupervisorSawOverridesTheSpec) {
  progress_.oversubscribed = true;
  EXPECT_EQ(build()["energy"], nullptr) << "before ranks worked";
  progress_.energy = {{"joules", nullptr},
                      {"to_goal_joules", nullptr},
                      {"hosts",
                       {{{"host", "n1"}, {"meter", "RAPL: package-0"}, {"joules", 120.5}},
                        {{"host", "n2"}, {"meter", nullptr}, {"joules", nullptr}}}}};
  EXPECT_EQ(build()["energy"], progress_.energy);
  progress_.utilisation = {{"cpu", 0.93}};
  const Json record = build();
  EXPECT_EQ(record["oversubscribed"], true);
  EXPECT_EQ(record["utilisation"], (Json{{"cpu", 0.93}, {"gpu", nullptr}}));
}

TEST_F(BuildRecord, FieldsAreThoseOfTheSchemaInItsOrder) {
  one_finished_segment();
  const Json record = build();
  const Json schema = read_json_file(SchemaValidator("run.schema.json").schema());
  std::vector<std::string> fields, properties;
  for (const auto& item : record.items()) fields.push_back(item.key());
  for (const auto& item : schema["properties"].items()) properties.push_back(item.key());
  EXPECT_EQ(fields, schema["required"].get<std::vector<std::string>>());
  EXPECT_EQ(fields, properties);
}

TEST_F(BuildRecord, EveryKindOfRecordMeetsTheSchema) {
  if (const std::string missing = SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  const SchemaValidator validator("run.schema.json");
  const auto expect_valid = [&](const char* what) { EXPECT_EQ(validator.complaint(build()), "") << what; };
  expect_valid("queued");
  one_finished_segment();
  expect_valid("finished");
  resume_at_step_10();
  progress_.state = RunState::kRunning;
  expect_valid("resumed");
  progress_.state = RunState::kFailed;
  progress_.failure = Failure{"rank_died", 1, "node7", "all_reduce", 42, "killed by signal 9", {"last", "lines"}};
  spec_.overrides = {{"precision", "bf16"}};
  expect_valid("failed");
  spec_.fixed_batch = true;
  spec_.division = "throughput";
  EXPECT_EQ(build()["data"]["fixed_batch"], true);
  expect_valid("throughput");
  spec_.fixed_batch = false;
  spec_.emulated_step_s = 0.15;
  EXPECT_EQ(build()["emulated_step_s"], 0.15);
  EXPECT_EQ(build()["goal"], nullptr);
  expect_valid("emulated");
  spec_.emulated_step_s = 0;
  spec_.convolution = "direct";
  EXPECT_EQ(build()["requested"]["convolution"], "direct");
  expect_valid("direct convolutions");
  spec::set_command(spec_, {{"python3", "train.py"}});
  EXPECT_FALSE(build()["requested"].contains("convolution")) << "of a training";
  expect_valid("custom");
  spec::declare(spec_, spec::find_task("2a", "", "", {}), {}, "epsilon");
  expect_valid("a command that declares a task");

  // The validator is awake.
  Json wrong = build();
  wrong["clocks"]["train_s"] = "long";
  EXPECT_NE(validator.complaint(wrong), "");
  wrong = build();
  wrong.erase("hosts");
  EXPECT_NE(validator.complaint(wrong), "");
}

TEST(Clocks, AreSumsOfIntegers) {
  RankSpool first, second;
  first.steps = {step_record(0, 25, 1001), step_record(25, 5, 10)};
  second.steps = {step_record(20, 10, 100)};
  const Clocks clocks = derive_clocks({first, second});
  EXPECT_EQ(clocks.train_ns, 1111);
  EXPECT_EQ(clocks.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)], 200 + 2 + 20);
  EXPECT_EQ(clocks.train_legacy_ns, 1111 - 222 - (100 + 1 + 10));
  EXPECT_EQ(clocks.steps, 40);
  EXPECT_EQ(clocks.samples, 400);
}

TEST(RunStates, HaveNames) {
  std::vector<std::string_view> names;
  for (const RunState state :
       {RunState::kQueued, RunState::kRunning, RunState::kFinished, RunState::kFailed, RunState::kStopped}) {
    names.push_back(name_of(state));
  }
  EXPECT_THAT(names, ElementsAre("queued", "running", "finished", "failed", "stopped"));
}

}  // namespace
}  // namespace mlbench::record
