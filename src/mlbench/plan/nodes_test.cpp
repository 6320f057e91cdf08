#include "mlbench/plan/nodes.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::plan {
namespace {

using namespace std::chrono_literals;

exec::ClusterNodes answer_with(const std::string& name) { return {.nodes = {{.name = name}}}; }

// The name of the only node.
std::string name_in(const exec::ClusterNodes& answer) { return answer.nodes.at(0).name; }

TEST(NodeLists, AnEngineIsAskedOnceInAPeriod) {
  ManualClock clock;
  int asked = 0;
  NodeLists lists([&](const std::string&, const Json&) { return answer_with(std::to_string(++asked)); }, clock);
  EXPECT_EQ(name_in(lists.of("slurm", {})), "1");
  clock.advance(kNodesPeriod - 1s);
  EXPECT_EQ(name_in(lists.of("slurm", {})), "1");
  clock.advance(1s);
  EXPECT_EQ(name_in(lists.of("slurm", {})), "2");
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
  engine["image"] = "i:1";  // has no influence on the hosts
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
  NodeLists lists([](const std::string&, const Json&) -> exec::ClusterNodes { throw UserError("no such context"); },
                  clock);
  const exec::ClusterNodes answer = lists.of("kubernetes", {});
  EXPECT_TRUE(answer.nodes.empty());
  EXPECT_EQ(answer.problem, "no such context");
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
  EXPECT_EQ(name_in(lists.of("local", {})), "local");
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
  EXPECT_EQ(name_in(lists.of("mpirun", engine)), "1000");
}

}  // namespace
}  // namespace mlbench::plan
