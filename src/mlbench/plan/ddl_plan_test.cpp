#include "mlbench/plan/ddl_plan.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/plan/plan.h"
#include "mlbench/plan/sweep_plan.h"
#include "mlbench/spec/batch_scaling.h"

namespace mlbench::plan {
namespace {

using report::DdlPoint;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

class DdlPlan : public testing::Test {
 protected:
  DdlPlan() {
    facts_.home = folder_.path();
    facts_.cores = 8;
    facts_.catalog = Json::parse(R"({"frameworks": [{"name": "torch", "available": true, "inter_op": true}],
                                     "backends": [{"name": "gloo", "available": true}]})");
    options_.run.name = "d";
    options_.run.task = "1b-resnet50";
  }

  spec::RunSpec planned(const spec::RunOptions& run) const { return plan_runs(run, facts_).front(); }

  TemporaryFolder folder_;
  PlanFacts facts_;
  DdlOptions options_;
};

TEST_F(DdlPlan, PointsAreAllCombinations) {
  options_.workers = {1, 2};
  options_.inputs = {report::kSyntheticInput, "/data"};
  options_.variants = {"b32", "b64", "total-256"};
  const std::vector<DdlPoint> points = ddl_points(options_);
  EXPECT_EQ(points.size(), 12U);
  EXPECT_EQ(points[1].workers, 2);
  EXPECT_EQ(points.back().input, "/data");
}

TEST_F(DdlPlan, ASyntheticPointHasAFixedBatchAndSomeSteps) {
  options_.run.to_the_end = true;  // which is for the points that train
  const spec::RunSpec run = planned(ddl_options(options_, {.variant = "b32", .workers = 2}, 1));
  EXPECT_EQ(run.name, "d.synthetic.real.b32-2");
  EXPECT_TRUE(run.synthetic);
  EXPECT_TRUE(run.fixed_batch);
  EXPECT_EQ(run.limits.max_steps, kDdlSteps);
  EXPECT_FALSE(run.limits.to_the_end);
  EXPECT_EQ(run.seed, 43U) << "of the second repeat";
  options_.run.max_steps = "7";
  EXPECT_EQ(planned(ddl_options(options_, {}, 0)).limits.max_steps, 7);
}

TEST_F(DdlPlan, PlacesAndNetworksHaveNamesOfTheirOwn) {
  const spec::RunOptions one = ddl_options(options_, {.input = "/a", .network = "bandwidth=1Gbit"}, 0);
  EXPECT_THAT(one.name, testing::MatchesRegex("d\\.data[0-9a-f]{6}\\.net[0-9a-f]{6}"));
  EXPECT_EQ(one.data_dir, "/a");
  EXPECT_EQ(one.netem, "bandwidth=1Gbit");
  EXPECT_FALSE(one.synthetic);
  EXPECT_NE(one.name, ddl_options(options_, {.input = "/b", .network = "bandwidth=1Gbit"}, 0).name);
  EXPECT_NE(one.name, ddl_options(options_, {.input = "/a", .network = "bandwidth=2Gbit"}, 0).name);
}

TEST_F(DdlPlan, ANetworkHasSettings) {
  facts_.catalog["backends"][0]["tunables"] = {"links", "socket_buffer", "interface"};
  options_.run.links = "2";  // of all networks that do not say it
  const auto of = [&](const std::string& network) {
    return planned(ddl_options(options_, {.network = network, .workers = 2}, 0)).communication;
  };
  EXPECT_EQ(of(report::kRealNetwork), (spec::Communication{.links = 2}));
  EXPECT_EQ(of("links=16,socket_buffer=12M"), (spec::Communication{.links = 16, .socket_buffer_bytes = 12 << 20}));
  EXPECT_EQ(
      of("latency=1ms,links=1,socket_buffer=64K,bandwidth=1Gbit;0>1:latency=2ms"),
      (spec::Communication{.netem = "latency=1ms,bandwidth=1Gbit;0>1:latency=2ms", .socket_buffer_bytes = 64 << 10}));
  EXPECT_THAT([&] { of("links=4;0>1:latency=2ms"); }, ThrowsMessage<UserError>(HasSubstr("--netem with --links")));
  const DdlPoint point{.network = "links=16", .workers = 2};
  EXPECT_EQ(planned(ddl_exchange_options(options_, point, {})).communication.links, 16) << "of the exchange alone, too";

  spec::RunOptions pods;
  set_network(pods, "host_network,interface=eth1");
  EXPECT_EQ(pods.engine, (Json{{"host_network", true}}));
  EXPECT_EQ(pods.network_interface, "eth1");
  EXPECT_EQ(pods.netem, "");
}

TEST_F(DdlPlan, SettingsOfANetworkThatMakeNoSenseAreNamed) {
  const auto refused = [](const std::string& network) {
    spec::RunOptions run;
    try {
      set_network(run, network);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return "taken, netem " + run.netem;
  };
  EXPECT_EQ(refused("links"), "--network 'links': links has no value: expected links=N");
  EXPECT_EQ(refused("links=2,links=4"), "--network 'links=2,links=4': links comes twice");
  EXPECT_EQ(refused("host_network=yes"), "--network 'host_network=yes': host_network takes no value");
  EXPECT_EQ(refused("queue=x"), "taken, netem queue=x") << "no setting of a network: refused with the run";
  EXPECT_THROW(planned(ddl_options(options_, {.network = "queue=x", .workers = 2}, 0)), UserError);
}

TEST_F(DdlPlan, OneWorkerComputesTheShareOfOne) {
  const DdlPoint point{.variant = "total-256", .workers = 4};
  const spec::RunSpec run =
      planned(ddl_compute_options(options_, point, {.threads_per_worker = 2, .global_batch = 256}));
  EXPECT_EQ(run.name, "d.compute.total-256.t2.of4-1");
  EXPECT_EQ(run.workers, 1);
  EXPECT_EQ(run.threads_per_worker, 2);
  EXPECT_EQ(run.task.task.global_batch, 64);
  EXPECT_TRUE(run.fixed_batch);
  EXPECT_EQ(run.emulated_step_s, 0);
  EXPECT_EQ(run.limits.max_steps, kDdlStageSteps);
  const spec::RunSpec of_each = planned(ddl_compute_options(options_, {.variant = "b32", .workers = 4}, {}));
  EXPECT_EQ(of_each.name, "d.compute.b32.t1-1") << "the same for any number of workers";
}

// Two workers of such a task have batches of twice the size, and so has the one that stands for them.
TEST_F(DdlPlan, OneWorkerComputesABatchThatGrewWithTheWorkers) {
  options_.run.task = "1a";
  options_.run.overrides = {"batch_scaling=linear"};
  const DdlPoint point{.workers = 2};
  const spec::RunSpec whole = planned(ddl_options(options_, point, 0));
  const spec::RunSpec run = planned(ddl_compute_options(options_, point, ddl_share(whole)));
  EXPECT_EQ(run.workers, 1);
  EXPECT_EQ(run.name, "d.compute.t4.of2-1");
  EXPECT_EQ(spec::worker_batch_of(run.task.task, 1), spec::worker_batch_of(whole.task.task, 2));
  EXPECT_EQ(spec::worker_batch_of(run.task.task, 1), 2 * whole.task.task.batch_size);
  const DdlPoint alone{.workers = 1};
  EXPECT_EQ(ddl_compute_options(options_, alone, ddl_share(planned(ddl_options(options_, alone, 0)))).name,
            "d.compute.t8");
}

TEST_F(DdlPlan, AllWorkersExchangeAndComputeNothing) {
  const DdlPoint point{.network = "bandwidth=1Gbit", .variant = "b32", .workers = 4};
  const spec::RunSpec run = planned(ddl_exchange_options(options_, point, {}));
  EXPECT_THAT(run.name, StartsWith("d.exchange.net"));
  EXPECT_EQ(run.workers, 4);
  EXPECT_EQ(run.communication.netem, "bandwidth=1Gbit");
  EXPECT_DOUBLE_EQ(run.emulated_step_s, 1e-5);
  EXPECT_TRUE(run.fixed_batch);
}

TEST_F(DdlPlan, OneWorkerLoadsWithTheThreadsOfThePoint) {
  options_.run.light = true;
  const DdlPoint point{.input = "/data", .variant = "b32", .workers = 4};
  const spec::RunOptions run = ddl_input_options(options_, point, {.decoding_threads = 3});
  EXPECT_THAT(run.name, StartsWith("d.input.data"));
  EXPECT_EQ(run.workers, std::vector<std::string>{"1"});
  EXPECT_EQ(run.decoding_threads, "3");
  EXPECT_EQ(run.data_dir, "/data");
  EXPECT_EQ(run.compute, "emulated=0.01ms");
  EXPECT_FALSE(run.synthetic || run.fixed_batch || run.light);
  EXPECT_EQ(run.netem, "");
}

}  // namespace
}  // namespace mlbench::plan
