// Tests what the loop does with updates that are skipped, with averaged weights, and before ranks do something
// together.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/rules/sgd.h"
#include "mlbench/train/train_test.h"

namespace mlbench::train::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::FloatNear;
using testing::IsEmpty;

// Sums over all ranks. Rank 1 contributes an infinity in some steps.
class OverflowingExchange final : public optim::Exchange {
 public:
  OverflowingExchange(const optim::ExchangeContext& context, std::vector<int64_t> overflows)
      : sum_(context, optim::CentralizedOptions()), rank_(context.comm.rank()), overflows_(std::move(overflows)) {}
  optim::Promise promise() const override { return sum_.promise(); }
  void begin(const compress::StepContext& step, optim::FlatTensors& tensors) override {
    step_ = step.step;
    tensors_ = &tensors;
    sum_.begin(step, tensors);
  }
  uint64_t finish() override {
    const bool overflows = std::find(overflows_.begin(), overflows_.end(), step_) != overflows_.end();
    if (overflows && rank_ == 1) tensors_->gradients[0].fill_(std::numeric_limits<float>::infinity());
    return sum_.finish();
  }
  Json effective() const override { return sum_.effective(); }

 private:
  optim::CentralizedExchange sum_;
  const int rank_;
  const std::vector<int64_t> overflows_;
  int64_t step_ = 0;
  optim::FlatTensors* tensors_ = nullptr;
};

MakeOptimizer overflowing_sgd(std::vector<int64_t> overflows) {
  return [overflows = std::move(overflows)](const models::FlatLayout& layout, comm::Communicator& comm) {
    auto coder = std::make_unique<compress::IdentityCoder>(layout);
    auto exchange = std::make_unique<OverflowingExchange>(optim::ExchangeContext{comm, *coder, layout}, overflows);
    return std::make_unique<optim::Optimizer>(std::make_unique<optim::SgdRule>(optim::SgdOptions{0.5}, layout),
                                              std::move(coder), std::move(exchange));
  };
}

TEST(SkippedSteps, ChangeNothingAndAreNoneOfTheSchedule) {
  TestRun plain(2);
  plain.run.task.task.schedule.decay = "inverse_sqrt";
  plain.run.limits.max_steps = 9;
  const auto expected = plain.start();

  TestRun scaled(2);
  scaled.run.task.task.schedule.decay = "inverse_sqrt";
  scaled.run.checkpoint.every_steps = 5;
  scaled.make_optimizer = overflowing_sgd({0, 3, 8});
  scaled.step_options.loss_scale.initial = 1024;
  scaled.step_options.loss_scale.interval = 4;
  const auto ranks = scaled.start();
  for (const RankOutcome& rank : ranks) {
    EXPECT_EQ(rank.result.steps, 12);
    EXPECT_EQ(rank.parameters, expected[0].parameters);
  }
  const record::RankSpool& spool = ranks[0].spool;
  // Steps 0 and 3 are skipped, the scale grows after steps 4 to 7, and step 8 is skipped.
  EXPECT_THAT(values_of<int64_t>(spool, "loss_scale", "step"), ElementsAre(1, 4, 8, 9));
  EXPECT_THAT(values_of<double>(spool, "loss_scale", "loss_scale"), ElementsAre(512, 256, 512, 256));
  EXPECT_THAT(values_of<int64_t>(spool, "loss_scale", "skipped_steps"), ElementsAre(1, 2, 2, 3));
  EXPECT_THAT(values_of<int64_t>(spool, "end", "skipped_steps"), ElementsAre(3));
  EXPECT_THAT(events_named(ranks[1].spool, "loss_scale"), IsEmpty()) << "rank 0 tells it for all";

  for (const RankOutcome& rank : scaled.start({2, 5})) EXPECT_EQ(rank.parameters, ranks[0].parameters);
}

TEST(Clipping, TellsNormsByEpoch) {
  TestRun test;
  test.step_options.clip_norm = 1;
  const auto ranks = test.start();
  // Eight weights and two biases with a gradient of 1 each.
  EXPECT_THAT(values_of<double>(ranks[0].spool, "epoch", "gradient_norm"),
              testing::Each(DoubleNear(std::sqrt(10.0), 1e-12)));
  EXPECT_THAT(values_of<int64_t>(ranks[0].spool, "epoch", "clipped_steps"), ElementsAre(3, 3, 3, 3));
}

float first_of(const NamedState& state, const std::string& name) {
  float value = 0;
  std::memcpy(&value, state.tensor(name).bytes.data(), sizeof value);
  return value;
}

TEST(AveragedWeights, AreEvaluatedAndStoredWhileTrainingGoesOnWithItsOwn) {
  TestRun test;
  test.run.task.task.optimizer.options = Json::object();
  test.run.checkpoint.every_steps = 6;
  test.step_options.averaging_patience = 1;
  test.before_training = [](optim::Optimizer& optimizer) {
    for (const double loss : {-100, 0}) optimizer.on_evaluation(loss);
  };
  const auto ranks = test.start();
  const RankOutcome& rank = ranks[0];
  // Each step subtracts 1: after n steps the weights are start - n, and the mean from the second to the last one is
  // start - (n + 2) / 2.
  const float start = rank.parameters[0] + 12;
  EXPECT_THAT(rank.evaluated_weights, ElementsAre(FloatNear(start - 2.5F, 1e-4F), FloatNear(start - 4, 1e-4F),
                                                  FloatNear(start - 5.5F, 1e-4F), FloatNear(start - 7, 1e-4F)));
  std::map<int64_t, NamedState> stored;
  for (const auto& info : checkpoint::list_checkpoints(test.checkpoints())) {
    stored[info.step] = checkpoint::read_checkpoint(info.path);
  }
  EXPECT_NEAR(first_of(stored.at(6), "fc.weight"), start - 4, 1e-4F);
  EXPECT_NEAR(first_of(stored.at(6), "optimizer/weights/fc.weight"), start - 6, 1e-4F);
  EXPECT_EQ(first_of(stored.at(12), "fc.weight"), rank.evaluated_weights.back());

  const auto resumed = test.start({2, 6});
  EXPECT_EQ(resumed[0].result.weights_sha256, rank.result.weights_sha256);
  EXPECT_EQ(resumed[0].parameters, rank.parameters);
  EXPECT_THAT(resumed[0].evaluated_weights, ElementsAre(rank.evaluated_weights[2], rank.evaluated_weights[3]));
}

TEST(AveragedWeights, BeginWhereTheLossHasNoNewBest) {
  TestRun test;
  test.step_options.averaging_patience = 2;
  test.before_training = [](optim::Optimizer& optimizer) { optimizer.on_evaluation(-100); };
  const auto ranks = test.start();
  EXPECT_THAT(values_of<int64_t>(ranks[0].spool, "averaging", "step"), ElementsAre(6));  // the second evaluation
}

// Notes in `settled` behind how many steps it was told that ranks meet. Whatever ranks do together between steps
// without that is a failure.
class SettlingExchange final : public optim::Exchange, private comm::OperationObserver {
 public:
  SettlingExchange(const optim::ExchangeContext& context, std::vector<int64_t>& settled)
      : sum_(context, optim::CentralizedOptions()), board_(context.comm.board()), settled_(settled) {
    board_.attach(*this);
  }
  ~SettlingExchange() override { board_.detach(*this); }
  optim::Promise promise() const override { return sum_.promise(); }
  void begin(const compress::StepContext& step, optim::FlatTensors& tensors) override {
    steps_ = step.step + 1;
    unsettled_ = false;
    sum_.begin(step, tensors);
  }
  uint64_t finish() override { return sum_.finish(); }
  uint64_t after_update(optim::FlatTensors&) override {
    unsettled_ = true;
    return 0;
  }
  uint64_t settle(optim::FlatTensors&) override {
    if (std::exchange(unsettled_, false)) settled_.push_back(steps_);
    return 100;
  }
  std::vector<int64_t> staleness() const override { return {steps_ - 1, 1}; }
  Json effective() const override { return sum_.effective(); }

 private:
  void begin(const comm::Operation& operation) noexcept override {
    EXPECT_FALSE(unsettled_) << operation.name << " behind step " << steps_;
  }
  void end(const comm::Operation& /*operation*/) noexcept override {}

  optim::CentralizedExchange sum_;
  comm::OperationBoard& board_;
  std::vector<int64_t>& settled_;
  int64_t steps_ = 0;
  bool unsettled_ = false;
};

// Two ranks, of which rank 0 notes in `settled`.
std::vector<RankOutcome> run_settling(TestRun& test, std::vector<int64_t>& settled) {
  std::vector<int64_t> of_rank_1;
  test.make_optimizer = [&](const models::FlatLayout& layout, comm::Communicator& comm) {
    auto coder = std::make_unique<compress::IdentityCoder>(layout);
    auto exchange = std::make_unique<SettlingExchange>(optim::ExchangeContext{comm, *coder, layout},
                                                       comm.rank() == 0 ? settled : of_rank_1);
    return std::make_unique<optim::Optimizer>(std::make_unique<optim::SgdRule>(optim::SgdOptions{0.5}, layout),
                                              std::move(coder), std::move(exchange));
  };
  auto ranks = test.start();
  EXPECT_EQ(of_rank_1, settled);
  return ranks;
}

TEST(Settling, HappensBeforeAllThatRanksDoTogether) {
  std::vector<int64_t> settled;
  TestRun test(2);  // with an evaluation every 3 steps
  test.run.checkpoint.every_steps = 5;
  test.run.limits.max_steps = 11;
  const auto ranks = run_settling(test, settled);
  EXPECT_THAT(settled, ElementsAre(3, 5, 6, 9, 10, 11));
  EXPECT_EQ(ranks[0].result.steps, 11);
  uint64_t bytes = 0;
  for (const record::StepRecord& record : ranks[0].spool.steps) bytes += record.bytes;
  // Eight weights and two biases in each step.
  EXPECT_EQ(bytes, 11 * 10 * sizeof(float) + 100 * settled.size());
  for (const RankOutcome& rank : ranks) {
    EXPECT_THAT(values_of<std::vector<int64_t>>(rank.spool, "end", "staleness"), ElementsAre(ElementsAre(10, 1)));
  }
}

TEST(Settling, HappensBeforeALookAtTheClock) {
  std::vector<int64_t> settled;
  TestRun test(2);
  test.run.limits.max_time_s = 3600;
  run_settling(test, settled);
  EXPECT_THAT(settled, testing::IsSupersetOf({1, 3, 6, 9, 12})) << "the first step is behind a look";
}

TEST(Settling, HappensBeforeTheCheckpointOfAStoppedRun) {
  std::vector<int64_t> settled;
  TestRun test(2);
  for (int rank = 0; rank < 2; ++rank) {
    test.stops.push_back(std::make_unique<StopPoint>());
    test.stops.back()->set(5);
  }
  EXPECT_EQ(run_settling(test, settled)[0].result.reason, StopReason::kStopped);
  EXPECT_THAT(settled, ElementsAre(3, 5));
}

}  // namespace
}  // namespace mlbench::train::test
