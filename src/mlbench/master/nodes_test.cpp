#include "mlbench/master/nodes.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::master {
namespace {

using namespace std::chrono_literals;

Json answer_with(const std::string& name) { return {{"nodes", {{{"name", name}}}}, {"problem", nullptr}}; }

TEST(NodeLists, AnEngineIsAskedOnceInAPeriod) {
  ManualClock clock;
  int asked = 0;
  NodeLists lists([&](const std::string&, const Json&) { return answer_with(std::to_string(++asked)); }, clock);
  EXPECT_EQ(lists.of("slurm", {}), answer_with("1"));
  clock.advance(kNodesPeriod - 1s);
  EXPECT_EQ(lists.of("slurm", {}), answer_with("1"));
  clock.advance(1s);
  EXPECT_EQ(lists.of("slurm", {}), answer_with("2"));
}

TEST(NodeLists, EachClusterIsAskedForItself) {
  ManualClock clock;
  std::vector<std::string> asked;
  NodeLists lists(
      [&](const std::string& executor, const Json& engine) {
        asked.push_back(executor + " " + spec::engine_text(engine, "hosts") +
                        spec::engine_text(engine, "kube_context") + spec::engine_text(engine, "image"));
        return answer_with("n");
      },
      clock);
  Json engine = Json::object();
  lists.of("mpirun", engine);
  engine["hosts"] = "h1:2";
  lists.of("mpirun", engine);
  engine["image"] = "i:1";  // no matter for the hosts
  lists.of("mpirun", engine);
  engine = Json::object();
  engine["kube_context"] = "lab";
  lists.of("kubernetes", engine);
  engine["memory"] = "4Gi";
  lists.of("kubernetes", engine);
  EXPECT_THAT(asked, testing::ElementsAre("mpirun ", "mpirun h1:2", "kubernetes lab"));
}

TEST(NodeLists, WhatIsThrownIsTheProblem) {
  ManualClock clock;
  NodeLists lists([](const std::string&, const Json&) -> Json { throw UserError("no such context"); }, clock);
  EXPECT_EQ(lists.of("kubernetes", {}), Json({{"nodes", Json::array()}, {"problem", "no such context"}}));
}

TEST(NodeLists, AHangingEngineHoldsUpNobodyElse) {
  ManualClock clock;
  std::atomic<bool> go = false;
  NodeLists lists(
      [&](const std::string& executor, const Json&) {
        while (executor == "slurm" && !go) std::this_thread::sleep_for(1ms);
        return answer_with(executor);
      },
      clock);
  std::thread hanging([&] { lists.of("slurm", {}); });
  EXPECT_EQ(lists.of("local", {}), answer_with("local"));
  go = true;
  hanging.join();
}

TEST(NodeLists, ManyClustersAreForgotten) {
  ManualClock clock;
  int asked = 0;
  NodeLists lists([&](const std::string&, const Json&) { return answer_with(std::to_string(++asked)); }, clock);
  Json engine = Json::object();
  for (int i = 0; i < 1000; ++i) {
    engine["hosts"] = "h" + std::to_string(i);
    lists.of("mpirun", engine);
    clock.advance(1s);
  }
  EXPECT_EQ(asked, 1000);
  EXPECT_EQ(lists.of("mpirun", engine), answer_with("1000"));
}

TEST(RanksOnNodes, AreWhereTheRecordSaysWithWhatWasSeenLast) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "r-2";
  EXPECT_EQ(ranks_on_nodes(run), Json::array());
  std::filesystem::create_directories(run / "spool");
  write_file_atomically(run / "run.json", R"({"placement": [{"rank": 0, "host": "n1"}, {"rank": 1, "host": "n2"},
                                             {"rank": -1, "host": "n3"}, {"host": "n4"}]})");
  Json ranks = ranks_on_nodes(run);
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[1]["node"], "n2");
  EXPECT_TRUE(ranks[1]["cpu_cores"].is_null());
  write_file_atomically(usage_path(run), to_text(record::UsageLine{1, 1, {{1, 1}}}) + "\n" +
                                             to_text(record::UsageLine{2, 2, {{0.5, 4096, 10, 20}, {}}}) + "\n");
  ranks = ranks_on_nodes(run);
  EXPECT_EQ(ranks[0], Json::parse(R"({"run": "r-2", "rank": 0, "node": "n1", "cpu_cores": 0.5, "memory_bytes": 4096,
                                      "network_in_bytes_per_s": 10.0, "network_out_bytes_per_s": 20.0})"));
  EXPECT_TRUE(ranks[1]["memory_bytes"].is_null());
  write_file_atomically(run / "run.json", "{");
  EXPECT_EQ(ranks_on_nodes(run), Json::array());
}

}  // namespace
}  // namespace mlbench::master
