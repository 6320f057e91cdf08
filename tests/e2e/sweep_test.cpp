// `mlbench sweep` with real ranks on made data: each point a run of a few steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(SweepEndToEnd, FindsASettingScalesItAndNamesTheBottleneck) {
  const TemporaryFolder folder;
  const auto sweep = [&] {
    return test::mlbench(folder, {"sweep",
                                  "s",
                                  "--task",
                                  "2a",
                                  "--data",
                                  "madelon",
                                  "--synthetic",
                                  "--framework",
                                  "torch",
                                  "--procs-per-node",
                                  "1,2",
                                  "--intra-op",
                                  "1",
                                  "--inter-op",
                                  "1,2",
                                  "--nodes",
                                  "1,2",
                                  "--probe-steps",
                                  "5",
                                  "--max-epochs",
                                  "1",
                                  "--lr-scaling",
                                  "on,off",
                                  "--local",
                                  "--json",
                                  "--timeline",
                                  (folder / "t.json").string(),
                                  "--format",
                                  "csv,markdown,json,html",
                                  "-o",
                                  (folder / "out").string()});
  };
  const ProcessOutput made = sweep();
  ASSERT_EQ(made.end.code, 0) << made.standard_output << made.standard_error;
  const Json json = Json::parse(made.standard_output);

  ASSERT_EQ(json["settings"].size(), 4U);
  double highest = 0;
  for (const Json& point : json["settings"]) {
    EXPECT_EQ(point["state"], "finished") << point;
    highest = std::max(highest, point["samples_per_s"].get<double>());
  }
  EXPECT_EQ(json["best"]["samples_per_s"], highest);

  ASSERT_EQ(json["nodes"].size(), 4U) << "1 and 2 nodes, the learning rate scaled and not";
  const double base = json["nodes"][0]["samples_per_s"].get<double>();
  for (const Json& point : json["nodes"]) {
    SCOPED_TRACE(point.dump());
    EXPECT_EQ(point["state"], "finished");
    EXPECT_EQ(point["procs_per_node"], json["best"]["procs_per_node"]);
    EXPECT_EQ(point["inter_op"], json["best"]["inter_op"]);
    EXPECT_TRUE(point["best_accuracy"].is_number());
    EXPECT_TRUE(point["bottleneck"]["text"].is_string());
    double parts = 0;
    for (const auto& [name, seconds] : point["seconds_per_sample"].items()) parts += seconds.get<double>();
    EXPECT_NEAR(parts, point["workers"].get<double>() / point["samples_per_s"].get<double>(), 0.01 * parts);
  }
  const Json& two = json["nodes"][2];
  EXPECT_EQ(two["lr_scaling"], true);
  EXPECT_NEAR(two["efficiency"].get<double>(), two["samples_per_s"].get<double>() / base / 2, 1e-9);
  EXPECT_THAT(two["labels"], Contains("ranks on one host"));
  EXPECT_NE(two["timeline"], "");

  const ProcessOutput again = sweep();
  EXPECT_EQ(again.end.code, 0) << again.standard_error;
  EXPECT_THAT(again.standard_error, HasSubstr("s.p1t1i2-1 is kept"));
  EXPECT_EQ(Json::parse(again.standard_output)["nodes"], json["nodes"]);
}

}  // namespace
}  // namespace mlbench
