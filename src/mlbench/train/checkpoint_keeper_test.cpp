#include "mlbench/train/checkpoint_keeper.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "mlbench/base/errors.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/compress/toy_coders_test.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/exchange/toy_exchanges_test.h"
#include "mlbench/optim/rules/sgd.h"
#include "mlbench/train/snapshot.h"
#include "mlbench/train/train_test.h"

namespace mlbench::train::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> stored(const TestRun& test) {
  std::vector<int64_t> steps;
  for (const auto& info : checkpoint::list_checkpoints(test.checkpoints())) steps.push_back(info.step);
  return steps;
}

std::string refusal(TestRun& test, const Start& start) {
  try {
    test.start(start);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(Checkpoints, are_written_at_the_end_unless_that_is_switched_off) {
  TestRun test;
  test.run.limits.max_steps = 2;
  test.start();
  EXPECT_THAT(stored(test), ElementsAre(2));

  TestRun none;
  none.run.limits.max_steps = 2;
  none.run.checkpoint.at_end = false;
  const auto ranks = none.start();
  EXPECT_THAT(stored(none), IsEmpty());
  EXPECT_THAT(events_named(ranks[0].spool, "checkpoint"), IsEmpty());
}

TEST(Checkpoints, are_written_every_few_steps_and_once_at_the_end) {
  TestRun test(2);
  test.run.checkpoint.every_steps = 3;
  const auto ranks = test.start();
  EXPECT_THAT(stored(test), ElementsAre(3, 6, 9, 12));
  for (const RankOutcome& rank : ranks) {
    EXPECT_THAT(values_of<int64_t>(rank.spool, "checkpoint", "step"), ElementsAre(3, 6, 9, 12));
  }
}

TEST(Checkpoints, are_written_every_epoch) {
  TestRun test;
  test.run.checkpoint.every_epoch = true;
  test.run.checkpoint.at_end = false;
  test.run.limits.max_steps = 8;
  test.start();
  EXPECT_THAT(stored(test), ElementsAre(3, 6));
}

TEST(Checkpoints, none_in_mid_run_is_written_where_the_goal_ends_it) {
  TestRun test;
  test.run.checkpoint.every_steps = 1;
  test.run.checkpoint.at_end = false;
  test.run.task.task.goal.target = 50;  // after 3 steps
  test.start();
  EXPECT_THAT(stored(test), ElementsAre(1, 2));
}

TEST(Checkpoints, hold_where_they_come_from) {
  TestRun test(2);
  test.run.limits.max_steps = 4;
  test.run.threads_per_worker = 3;
  test.run.seed = 5;
  test.start();
  const NamedState state = checkpoint::read_checkpoint(checkpoint::list_checkpoints(test.checkpoints()).at(0).path);
  EXPECT_EQ(state.integer("train/step"), 4);
  EXPECT_EQ(state.integer("train/goal_reached"), 0);
  EXPECT_EQ(state.text("train/task_hash"), "hash of the task");
  EXPECT_EQ(state.text("train/framework"), "known");
  EXPECT_EQ(state.integer("train/workers"), 2);
  EXPECT_EQ(state.integer("train/threads_per_worker"), 3);
  EXPECT_EQ(state.integer("train/seed"), 5);
  for (const char* name : {"fc.weight", "fc.bias", "bn.running_mean", "rank0/bn.running_mean", "rank1/bn.running_mean",
                           "optimizer/momentum/fc.weight", "train/epoch_metric_sums"}) {
    EXPECT_TRUE(state.tensors.contains(name)) << name;
  }
}

// Other programs read these tensors.
TEST(Checkpoints, of_ranks_that_hold_the_same_have_each_value_once) {
  TestRun test(2);
  test.run.limits.max_steps = 4;
  test.start();
  const NamedState state = checkpoint::read_checkpoint(checkpoint::list_checkpoints(test.checkpoints()).at(0).path);
  std::vector<std::string> tensors, scalars;
  for (const auto& [name, tensor] : state.tensors) tensors.push_back(name);
  for (const auto& [name, scalar] : state.scalars) scalars.push_back(name);
  EXPECT_THAT(tensors, ElementsAre("bn.running_mean", "fc.bias", "fc.weight", "optimizer/momentum/fc.bias",
                                   "optimizer/momentum/fc.weight", "rank0/bn.running_mean", "rank1/bn.running_mean",
                                   "train/epoch_metric_sums"));
  EXPECT_THAT(scalars, testing::Each(testing::Not(testing::StartsWith("rank"))));
}

// SGD with momentum 0.5, on gradients of ranks that differ.
MakeOptimizer with_error_memory() {
  return [](const models::FlatLayout& layout, comm::Communicator& comm) {
    auto coder = std::make_unique<compress::ErrorMemoryCoder>(compress::CoderContext{layout, 42, comm.rank()});
    const optim::ExchangeContext context{comm, *coder, layout};
    auto exchange = std::make_unique<optim::CentralizedExchange>(context, optim::CentralizedOptions());
    return std::make_unique<optim::Optimizer>(std::make_unique<optim::SgdRule>(optim::SgdOptions{0.5}, layout),
                                              std::move(coder), std::move(exchange));
  };
}

MakeOptimizer with_neighbour_averaging(int64_t every) {
  return [every](const models::FlatLayout& layout, comm::Communicator& comm) {
    auto coder = std::make_unique<compress::IdentityCoder>(layout);
    const optim::ExchangeContext context{comm, *coder, layout};
    auto exchange = std::make_unique<optim::NeighbourAveraging>(context, every);
    return std::make_unique<optim::Optimizer>(std::make_unique<optim::SgdRule>(optim::SgdOptions{0.5}, layout),
                                              std::move(coder), std::move(exchange));
  };
}

std::vector<float> values_in(const NamedState& state, const std::string& name) {
  const HostTensor& tensor = state.tensor(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(Weights, that_ranks_do_not_share_are_averaged_for_evaluation_hash_and_checkpoint) {
  TestRun test(2);
  test.spread = 1;
  test.run.limits.max_epochs = 1;
  test.make_optimizer = with_neighbour_averaging(1000);  // averaging never happens
  const auto ranks = test.start();
  EXPECT_NE(ranks[0].parameters, ranks[1].parameters);
  EXPECT_EQ(ranks[0].result.weights_sha256, ranks[1].result.weights_sha256);
  EXPECT_EQ(events_named(ranks[0].spool, "begin")[0]["effective"]["replicated"], false);

  std::vector<float> mean;
  for (size_t i = 0; i < ranks[0].parameters.size(); ++i) {
    mean.push_back((ranks[0].parameters[i] + ranks[1].parameters[i]) / 2);
  }
  for (const RankOutcome& rank : ranks) EXPECT_THAT(rank.evaluated_weights, testing::Each(mean[0]));

  const NamedState state = checkpoint::read_checkpoint(checkpoint::list_checkpoints(test.checkpoints()).at(0).path);
  const auto parameters_in = [&](const std::string& prefix) {
    std::vector<float> values = values_in(state, prefix + "fc.weight");
    const std::vector<float> bias = values_in(state, prefix + "fc.bias");
    values.insert(values.end(), bias.begin(), bias.end());
    return values;
  };
  EXPECT_EQ(parameters_in(""), mean);
  EXPECT_EQ(parameters_in("rank0/"), ranks[0].parameters);
  EXPECT_EQ(parameters_in("rank1/"), ranks[1].parameters);
  EXPECT_TRUE(state.tensors.contains("rank1/optimizer/momentum/fc.bias"));
  EXPECT_FALSE(state.tensors.contains("optimizer/momentum/fc.bias"));

  // The file has the model that was evaluated: the hash is that of the mean.
  framework::FrameworkOptions options;
  options.model = models::Chain({4}).linear("fc", 2).finish();
  options.model.parameters.push_back({"bn.running_mean", {3}, {}, false});
  const auto stored = framework::null_framework::make(options);
  import_averaged_model(state.tensors, *stored);
  EXPECT_EQ(models::weights_sha256(stored->layout(), framework::values_of(stored->parameters()),
                                   framework::values_of(stored->buffers())),
            ranks[0].result.weights_sha256);
}

TEST(Resume, of_ranks_that_hold_different_states_is_identical) {
  for (const int64_t workers : {1, 2, 4}) {
    for (const auto& make : {with_error_memory(), with_neighbour_averaging(3)}) {
      const auto configured = [&](int64_t steps) {
        auto test = std::make_unique<TestRun>(workers);
        test->spread = 0.25;
        test->make_optimizer = make;
        test->run.limits.max_steps = steps;
        return test;
      };
      const auto whole = configured(8);
      const auto expected = whole->start();
      const auto parts = configured(5);
      parts->start();
      parts->run.limits.max_steps = 8;
      const auto ranks = parts->start({.segment = 2, .resume_step = 5});
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_EQ(ranks[rank].parameters, expected[rank].parameters) << rank << " of " << workers;
        EXPECT_EQ(ranks[rank].result.weights_sha256, expected[rank].result.weights_sha256);
      }
    }
  }
}

// A checkpoint does not depend on how the gradient travels: a run may go on from it with overlap, or without.
TEST(Resume, with_overlap_or_without_is_identical) {
  const auto run = [](bool first, bool second) {
    TestRun test(2);
    test.spread = 0.5;
    test.run.limits.max_steps = 4;
    test.run.task.task.optimizer.options["overlap"] = first;
    test.start();
    test.run.limits.max_steps = 8;
    test.run.task.task.optimizer.options["overlap"] = second;
    return test.start({.segment = 2, .resume_step = 4})[0].result.weights_sha256;
  };
  TestRun whole(2);
  whole.spread = 0.5;
  whole.run.limits.max_steps = 8;
  const std::string expected = whole.start()[0].result.weights_sha256;
  EXPECT_EQ(run(true, true), expected);
  EXPECT_EQ(run(false, true), expected);
  EXPECT_EQ(run(true, false), expected);
}

// The break is in the middle of the second epoch. Weights, momentum, each rank's statistics and the metrics of the
// current epoch must go on.
TEST(Resume, goes_on_as_if_there_had_been_no_break) {
  for (const int64_t workers : {1, 2}) {
    // Each evaluation after the first halves the rate; the evaluation that the limit of 4 steps brings about must not.
    spec::ScheduleSpec schedule;
    schedule.decay = "plateau";
    schedule.factor = 0.5;
    schedule.patience = 1;
    schedule.threshold = 100;
    schedule.floor = 1e-3;
    TestRun whole(workers);
    whole.run.task.task.schedule = schedule;
    whole.run.limits.max_steps = 8;
    const auto expected = whole.start();

    TestRun parts(workers);
    parts.run.task.task.schedule = schedule;
    parts.run.limits.max_steps = 4;
    parts.start();
    parts.run.limits.max_steps = 8;
    const auto ranks = parts.start({.segment = 2, .resume_step = 4});
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks[rank].result.steps, 8);
      EXPECT_EQ(ranks[rank].result.weights_sha256, expected[rank].result.weights_sha256);
      EXPECT_EQ(ranks[rank].parameters, expected[rank].parameters);
      EXPECT_EQ(ranks[rank].buffers, expected[rank].buffers);
      EXPECT_EQ(ranks[rank].progress, 8);
    }
    const record::RankSpool& spool = ranks[0].spool;
    EXPECT_EQ(values_of<int64_t>(spool, "begin", "start_step"), std::vector<int64_t>{4});
    EXPECT_EQ(values_of<int64_t>(spool, "begin", "samples_before"), std::vector<int64_t>{14});
    const auto last = [](const record::RankSpool& spool, const char* name) { return events_named(spool, name).back(); };
    EXPECT_EQ(last(spool, "epoch")["metrics"], last(expected[0].spool, "epoch")["metrics"]);
    EXPECT_EQ(last(spool, "evaluation")["metrics"], last(expected[0].spool, "evaluation")["metrics"]);
    EXPECT_EQ(record::derive_clocks({spool}).steps, 4);
  }
}

TEST(Resume, of_a_run_that_was_at_its_end_does_nothing_more) {
  TestRun test;
  const auto first = test.start();
  const auto second = test.start({.segment = 2, .resume_step = 12});
  EXPECT_EQ(second[0].result.reason, StopReason::kEpochs);
  EXPECT_EQ(second[0].result.weights_sha256, first[0].result.weights_sha256);
  EXPECT_THAT(second[0].spool.steps, IsEmpty());
  EXPECT_THAT(events_named(second[0].spool, "evaluation"), IsEmpty());
}

TEST(Resume, names_both_where_the_checkpoint_is_of_another_run) {
  const auto refused = [](const std::function<void(spec::RunSpec&)>& change, int64_t workers = 1) {
    TestRun test(workers);
    test.run.limits.max_steps = 2;
    test.start();
    change(test.run);
    const std::string path = (test.checkpoints() / "step-000000002").string();
    const std::string text = refusal(test, {.segment = 2, .resume_step = 2}),
                      before = "checkpoint " + path + " was written by another run: ";
    EXPECT_EQ(text.substr(0, before.size()), before);
    return text.substr(std::min(text.size(), before.size()));
  };
  EXPECT_EQ(refused([](spec::RunSpec& run) { run.task.hash = "another"; }),
            "task is hash of the task, this run's is another");
  EXPECT_EQ(refused([](spec::RunSpec& run) { run.framework = "torch"; }), "framework is known, this run's is torch");
  EXPECT_EQ(refused([](spec::RunSpec& run) { run.workers = 2; }), "workers is 1, this run's is 2");
  EXPECT_EQ(refused([](spec::RunSpec& run) { run.workers = 1; }, 2), "workers is 2, this run's is 1");
}

TEST(Resume, names_what_the_checkpoint_of_another_program_lacks) {
  TestRun test;
  test.run.limits.max_steps = 2;
  test.start();
  NamedState state = checkpoint::read_checkpoint(checkpoint::list_checkpoints(test.checkpoints()).at(0).path);
  state.scalars.erase("train/goal_reached");
  std::filesystem::remove_all(test.checkpoints());
  checkpoint::write_checkpoint(test.checkpoints(), 2, state);
  EXPECT_EQ(refusal(test, {.segment = 2, .resume_step = 2}),
            "checkpoint has no value 'train/goal_reached': it is of another task, or of another mlbench: resume with "
            "that one");
}

TEST(Resume, lists_the_checkpoints_that_there_are) {
  TestRun test;
  test.run.limits.max_steps = 4;
  test.run.checkpoint.every_steps = 3;
  const std::string where = "no checkpoint at step 2 in " + test.checkpoints().string();
  EXPECT_EQ(refusal(test, {.segment = 1, .resume_step = 2}), where + ": there is none");
  test.start({.segment = 2});
  EXPECT_EQ(refusal(test, {.segment = 3, .resume_step = 2}), where + ": there are steps 3, 4");
}

}  // namespace
}  // namespace mlbench::train::test
