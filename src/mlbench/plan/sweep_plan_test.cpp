#include "mlbench/plan/sweep_plan.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/plan.h"

namespace mlbench::plan {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class SweepPlan : public testing::Test {
 protected:
  SweepPlan() {
    facts_.home = folder_.path();
    facts_.cores = 8;
    facts_.catalog = Json::parse(R"({"frameworks": [{"name": "torch", "available": true, "inter_op": true}],
                                     "backends": [{"name": "gloo", "available": true}]})");
    options_.run.name = "s";
    options_.run.task = "mnist";
    options_.run.synthetic = true;
    options_.run.max_epochs = "3";
    options_.nodes = {1, 8};
  }

  spec::RunSpec planned(const spec::RunOptions& run) const { return plan_runs(run, facts_).front(); }

  TemporaryFolder folder_;
  PlanFacts facts_;
  SweepOptions options_;
};

TEST_F(SweepPlan, ListsAreCheckedWhole) {
  EXPECT_THAT(parse_counts({"1", "4"}, "--nodes", {1, 10}), ElementsAre(1, 4));
  EXPECT_THAT([] { parse_counts({"1", "x"}, "--nodes", {1, 10}); }, ThrowsMessage<UserError>(HasSubstr("--nodes 'x'")));
  EXPECT_THAT([] { parse_counts({"2", "2"}, "--nodes", {1, 10}); }, ThrowsMessage<UserError>("--nodes has 2 twice"));
  EXPECT_THAT([] { parse_counts({}, "--nodes", {1, 10}); }, ThrowsMessage<UserError>(HasSubstr("--nodes 1,2,4")));
}

TEST_F(SweepPlan, ASettingRunsSomeStepsOnOneNode) {
  const spec::RunSpec run = planned(setting_options(options_, {2, 3, 2}, 1));
  EXPECT_EQ(run.name, "s.p2t3i2-2");
  EXPECT_EQ(run.workers, 2);
  EXPECT_EQ(run.threads_per_worker, 3);
  EXPECT_EQ(run.inter_op_threads, 2);
  EXPECT_EQ(run.seed, 43U) << "of the second repeat";
  EXPECT_EQ(run.limits.max_steps, 200);
  EXPECT_EQ(run.limits.max_epochs, 0);
  EXPECT_FALSE(run.limits.to_the_end);
}

TEST_F(SweepPlan, OverNodesTheLimitsAreTheUsers) {
  const spec::RunSpec scaled = planned(nodes_options(options_, {{2, 1, 1}, 8, true}, 0));
  EXPECT_EQ(scaled.name, "s.n8.p2t1i1-16");
  EXPECT_EQ(scaled.workers, 16);
  EXPECT_EQ(scaled.limits.max_epochs, 3);
  EXPECT_EQ(scaled.limits.max_steps, 0);
  EXPECT_TRUE(scaled.limits.to_the_end);
  EXPECT_EQ(scaled.division, "closed");
  EXPECT_EQ(scaled.task.task.schedule.scaling, "linear");
  const spec::RunSpec unscaled = planned(nodes_options(options_, {{2, 1, 1}, 8, false}, 0));
  EXPECT_EQ(unscaled.name, "s.n8.p2t1i1.lr1-16");
  EXPECT_EQ(unscaled.task.task.schedule.scaling, "none");
  EXPECT_EQ(unscaled.division, "open");
}

TEST_F(SweepPlan, OneWorkerIsScaledByOne) {
  const auto requests = node_requests(options_, {});
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_FALSE(same_as_scaled(options_, requests[0]));
  EXPECT_TRUE(same_as_scaled(options_, requests[1]));
  EXPECT_FALSE(same_as_scaled(options_, requests[3])) << "8 workers";
  options_.scaled = false;
  EXPECT_EQ(node_requests(options_, {}).size(), 2U);
  EXPECT_FALSE(same_as_scaled(options_, node_requests(options_, {})[0]));
}

TEST_F(SweepPlan, WithoutScalingThereIsNothingToSwitchOff) {
  options_.run.overrides = {"schedule.scaling=none"};
  EXPECT_THAT([&] { check_lr_scaling(options_, true); },
              ThrowsMessage<UserError>(HasSubstr("task 'mnist' does not scale its learning rate")));
  check_lr_scaling(options_, false);
  EXPECT_FALSE(options_.unscaled);
}

TEST_F(SweepPlan, RunsAreFoundByWhatTheyDo) {
  const spec::RunSpec run = planned(setting_options(options_, {}, 0));
  EXPECT_THAT(runs_like(folder_.path(), run), IsEmpty());
  home::create_run(folder_.path(), run);
  EXPECT_THAT(runs_like(folder_.path(), run), ElementsAre("s.p1t1i1-1"));
  const spec::RunSpec again = planned(setting_options(options_, {}, 0));
  EXPECT_EQ(again.name, "s.p1t1i1-1.2") << "the name is taken";
  EXPECT_EQ(specification_hash(again), specification_hash(run));
  EXPECT_THAT(runs_like(folder_.path(), again), ElementsAre("s.p1t1i1-1"));
  options_.probe_steps = 100;
  EXPECT_THAT(runs_like(folder_.path(), planned(setting_options(options_, {}, 0))), IsEmpty());
  options_.probe_steps = 200;
  EXPECT_THAT(runs_like(folder_.path(), planned(setting_options(options_, {}, 1))), IsEmpty()) << "another seed";
  EXPECT_THAT(runs_like(folder_.path(), planned(setting_options(options_, {1, 2, 1}, 0))), IsEmpty());
}

// 60,000 images in batches of 100 for 40 epochs. With 16 workers each epoch's last batch is smaller: 37.5 steps are 38.
TEST_F(SweepPlan, StepsAreTheExercises) {
  options_.procs_per_node = {1, 2};
  const auto steps = steps_of(options_);
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0].steps_per_epoch, 600);
  EXPECT_EQ(steps[0].steps, 24'000);
  EXPECT_DOUBLE_EQ(steps[0].lr, 1e-4);
  EXPECT_EQ(steps[3].workers, 16);
  EXPECT_EQ(steps[3].global_batch, 1600);
  EXPECT_DOUBLE_EQ(steps[3].lr, 16e-4);
  EXPECT_EQ(steps[3].steps, 38 * 40);
}

TEST_F(SweepPlan, TheExamplesOfTheTextAreReproduced) {
  options_.run.overrides = {"batch_size=128", "epochs=80"};
  options_.nodes = {16};
  EXPECT_EQ(steps_of(options_).at(0).global_batch, 2048);
}

}  // namespace
}  // namespace mlbench::plan
