// `mlbench run --timeline` with real ranks, one of which has a wrong clock and late batches (worker/slow_worker.cpp).

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/record/test_schema.h"
#include "mlbench/report/timeline/test_trace.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TimelineEndToEnd : public testing::Test {
 protected:
  ProcessOutput mlbench(std::vector<std::string> arguments) {
    return test::mlbench(folder_, std::move(arguments), environment_);
  }
  static std::string all(const ProcessOutput& output) { return output.standard_output + output.standard_error; }

  TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
};

TEST_F(TimelineEndToEnd, AWrongClockIsRemovedAndASlowLoaderBlamed) {
  constexpr double kSteps = 60;
  environment_ = {{"MLBENCH_WORKER", SLOW_WORKER},
                  {"SLOW_RANK", "1"},
                  {"SLOW_MS", "20"},
                  {"SLOW_FILE", (folder_ / "slept").string()},
                  {"MLBENCH_TEST_CLOCK_RANK", "1"},
                  {"MLBENCH_TEST_CLOCK_OFFSET_S", "10"},
                  {"MLBENCH_TEST_CLOCK_DRIFT_PPM", "200"}};
  // Nothing is computed: a rank that computes while the other sleeps has the machine to itself, and catches up. Beside
  // other work ranks may leave an operation at different moments, which is said to be inconclusive: once more, then.
  Json summary;
  std::string text;
  for (int attempt = 1; attempt <= 5; ++attempt) {
    const std::string name = fmt::format("late{}", attempt);
    const fs::path file = folder_ / (name + ".json");
    const ProcessOutput made =
        mlbench({"run", name, "2", "--task", "fashion-mnist", "--synthetic", "--framework", "null", "--max-steps",
                 std::to_string(int(kSteps)), "--local", "--timeline", file});
    ASSERT_EQ(made.end.code, 0) << all(made);
    EXPECT_THAT(made.standard_error, HasSubstr(fmt::format("timeline of {}-2: {}", name, file.string())));

    const ProcessOutput summed = mlbench({"timeline", "summary", file, "--json"});
    ASSERT_EQ(summed.end.code, 0) << all(summed);
    summary = Json::parse(summed.standard_output);
    text = mlbench({"timeline", "summary", name + "-2"}).standard_output;
    if (summary["verdict"]["kind"] != "inconclusive") break;
  }
  SCOPED_TRACE(text);

  const Json& clock = summary["clocks"][1];
  EXPECT_NEAR(clock["drift_ppm"].get<double>(), -200, clock["drift_bound_ppm"].get<double>() + 1);
  EXPECT_LT(clock["bound_us"].get<double>(), 20'000);
  EXPECT_EQ(summary["matched"]["unmatched"], 0);
  // In seconds: neither the ten that the clocks differ by, nor the start.
  const double slept = std::stod(read_file(folder_ / "slept")) / 1e9;
  const Json &waiting = summary["ranks"][0], &late = summary["ranks"][1];
  EXPECT_GE(slept, kSteps * 0.020);
  EXPECT_NEAR(late["waited_for"]["causes_s"].value("batch_load", 0.0), slept, 0.15 * slept);
  EXPECT_NEAR(late["input_s"].get<double>(), slept, 0.15 * slept);
  EXPECT_GE(waiting["communication"]["wait_s"].get<double>(), 0.5 * slept);
  EXPECT_EQ(summary["verdict"]["rank"], 1);
  EXPECT_EQ(summary["verdict"]["cause"], "batch_load");
  for (const Json& rank : summary["ranks"]) EXPECT_LE(rank["unattributed_share"].get<double>(), 0.02);
}

// The ranks of this run compute layer by layer and communicate beside that, evaluate, and write checkpoints.
TEST_F(TimelineEndToEnd, ARealTraceMeetsTheSchemaAndNests) {
  if (const std::string missing = record::SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  const fs::path file = folder_ / "out.json";
  std::vector<std::string> arguments = {"run", "real", "2", "--task", "fashion-mnist", "--data", "made-images"};
  for (const std::string word : {"--synthetic", "--local", "--backend=gloo", "--overlap",
                                 "--set=optimizer.bucket_mb=0.25", "--max-steps=30", "--checkpoint-every=10"}) {
    arguments.push_back(word);
  }
  arguments.insert(arguments.end(), {"--timeline", file});
  const ProcessOutput made = mlbench(arguments);
  ASSERT_EQ(made.end.code, 0) << all(made);
  const Json trace = read_json_file(file, report::kWholeTrace);
  EXPECT_EQ(record::SchemaValidator("timeline.schema.json").complaint(trace), "");
  report::expect_nested(trace);

  std::map<int64_t, std::set<std::string>> categories, rows;
  std::map<int64_t, int> steps;
  for (const Json& event : trace["traceEvents"]) {
    const auto rank = event["pid"].get<int64_t>();
    if (event["name"] == "thread_name") rows[rank].insert(event["args"]["name"]);
    if (event["ph"] != "X") continue;
    categories[rank].insert(event["cat"]);
    steps[rank] += event["cat"] == "step";
  }
  const std::set<std::string> ranks_rows = {"steps", "training thread", "communication thread"};
  const std::set<std::string> kinds = {"step",       "phase",      "layer",  "communication",
                                       "evaluation", "checkpoint", "prepare"};
  EXPECT_EQ(rows, (std::map<int64_t, std::set<std::string>>{{0, ranks_rows}, {1, ranks_rows}}));
  EXPECT_EQ(categories, (std::map<int64_t, std::set<std::string>>{{0, kinds}, {1, kinds}}));
  EXPECT_EQ(steps, (std::map<int64_t, int>{{0, 30}, {1, 30}}));
}

TEST_F(TimelineEndToEnd, CollectivesHaveOne) {
  const fs::path file = folder_ / "out.json";
  const ProcessOutput made = mlbench({"bench", "collectives", "all_reduce", "-k", "2", "--backend", "gloo", "-b", "8",
                                      "-e", "1K", "--timeline", file});
  ASSERT_EQ(made.end.code, 0) << all(made);
  const ProcessOutput summed = mlbench({"timeline", "summary", file});
  EXPECT_EQ(summed.end.code, 0) << all(summed);
  EXPECT_THAT(summed.standard_output, HasSubstr("all_reduce"));
}

}  // namespace
}  // namespace mlbench
