// What stands between exchange and rule: loss scaling, clipping, the way that ranks are reduced, averaged weights.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/comm/wrap/cast.h"
#include "mlbench/compress/toy_coders_test.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/rules/sgd.h"
#include "mlbench/optim/test_ranks.h"

namespace mlbench::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two tensors with padding between them.
const FlatLayout kStepLayout{.ranges = {{"a", {2}, 0, 2, true}, {"b", {3, 5}, 16, 15, true}}, .parameter_elements = 32};

at::Tensor flat_of(float value) {
  at::Tensor flat = at::zeros({32});
  for (const auto& [offset, count] : {std::pair{0, 2}, {16, 15}}) flat.narrow(0, offset, count).fill_(value);
  return flat;
}

// Elements that differ, times `scale`.
at::Tensor gradient_of(int step, float scale) {
  return flat_of(1) * (at::arange(32, at::kFloat) * 0.1F - 1 - 0.3F * static_cast<float>(step)) * scale;
}

spec::OptimizerSpec spec_of(const Json& options, const std::string& name = "centralized_sgd") {
  return named(name, options);
}

void exchange(Optimizer& optimizer, FlatTensors& tensors, int64_t step) {
  optimizer.begin({step}, tensors);
  optimizer.ready(0, tensors.gradients.numel());
  optimizer.finish();
}

// Runs `body(rank, communicator)` on ranks that are threads; `wire`: 16 bits, or float32 as it is.
void on_wired_ranks(int size, DType wire, const std::function<void(int, comm::Communicator&)>& body) {
  auto transports = comm::make_in_process_transports(size, kPatience);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport = std::move(transports[static_cast<size_t>(rank)]);
      if (wire != DType::kFloat32) transport = comm::make_cast(std::move(transport), wire);
      comm::Communicator ranks(std::move(transport));
      body(rank, ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- clipping and reduction -----------------------------------------------------------------------------------------

TEST(ClipNorm, IsThatOfTheWholeGradient) {
  const auto comm = one_rank();
  // 17 elements of 2: a norm of sqrt(68), which becomes 1; and of 0.1, which is small enough.
  for (const auto& [gradient, factor] : {std::pair{2.0F, 1 / (std::sqrt(68.0) + 1e-6)}, {0.1F, 1.0}}) {
    const auto optimizer = make_optimizer(spec_of({{"clip_norm", 1}}), kStepLayout, *comm);
    FlatTensors tensors{flat_of(1), flat_of(gradient)};
    exchange(*optimizer, tensors, 0);
    const StepOutcome outcome = optimizer->step(tensors, 0.5);
    EXPECT_FALSE(outcome.skipped);
    EXPECT_EQ(outcome.clipped, factor < 1);
    EXPECT_NEAR(outcome.gradient_norm.value(), gradient * std::sqrt(17.0), 1e-6);
    EXPECT_EQ(tensors.parameters[16].item<float>(), 1 - 0.5F * (static_cast<float>(factor) * gradient));
    EXPECT_EQ(tensors.gradients[16].item<float>(), gradient) << "the gradient itself stays";
  }
}

TEST(ClipNorm, IsOfTheSumOfAllRanks) {
  const auto alone = one_rank();
  const auto single = make_optimizer(spec_of({{"clip_norm", 0.25}}), kStepLayout, *alone);
  FlatTensors expected{flat_of(1), flat_of(3)};
  exchange(*single, expected, 0);
  single->step(expected, 1);
  on_wired_ranks(2, DType::kFloat32, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(spec_of({{"clip_norm", 0.25}}), kStepLayout, comm);
    FlatTensors tensors{flat_of(1), flat_of(rank == 0 ? 5.0F : -2.0F)};
    exchange(*optimizer, tensors, 0);
    optimizer->step(tensors, 1);
    EXPECT_TRUE(at::equal(tensors.parameters, expected.parameters)) << rank;
  });
}

TEST(ClipNorm, IsAskedForByNobodyElse) {
  const auto comm = one_rank();
  const auto optimizer = make_optimizer(spec_of({}), kStepLayout, *comm);
  FlatTensors tensors{flat_of(1), flat_of(2)};
  exchange(*optimizer, tensors, 0);
  EXPECT_EQ(optimizer->step(tensors, 0.5).gradient_norm, std::nullopt);
  EXPECT_EQ(optimizer->loss_scale(), 1);
}

TEST(Reduce, SumsOrAveragesTheSharesOfTheRanks) {
  for (const auto& [reduce, expected] : {std::pair{"sum", 1 - 6.0F}, {"mean", 1 - 1.5F}}) {
    on_wired_ranks(4, DType::kFloat32, [&, how = reduce, value = expected](int rank, comm::Communicator& comm) {
      const auto optimizer = make_optimizer(spec_of({{"reduce", how}}), kStepLayout, comm);
      FlatTensors tensors{flat_of(1), flat_of(static_cast<float>(rank))};
      exchange(*optimizer, tensors, 0);
      optimizer->step(tensors, 1);
      EXPECT_EQ(tensors.parameters[16].item<float>(), value);
    });
  }
}

// By layer, by bucket and as a whole; of several messages or one. 1.5 is no number of ranks.
TEST(Reduce, DividesTheSumByAGivenDenominator) {
  const Json patterns[] = {
      Json::object(), {{"by_layer", true}}, {{"bucket_mb", 1e-5}}, {{"pattern", "sharded"}}, {{"pattern", "server"}}};
  for (const Json& pattern : patterns) {
    for (const auto& [denominator, expected] : {std::pair{1.0, 1 - 6.0F}, {1.5, 1 - 4.0F}, {4.0, 1 - 1.5F}}) {
      SCOPED_TRACE(pattern.dump());
      Json options = pattern;
      options["denominator"] = denominator;
      on_wired_ranks(4, DType::kFloat32, [&, value = expected](int rank, comm::Communicator& comm) {
        const auto optimizer = make_optimizer(spec_of(options), kStepLayout, comm);
        FlatTensors tensors{flat_of(1), flat_of(static_cast<float>(rank))};
        exchange(*optimizer, tensors, 0);
        optimizer->step(tensors, 1);
        optimizer->after_update(tensors);
        EXPECT_EQ(tensors.parameters[16].item<float>(), value);
      });
    }
  }
}

TEST(StepOptions, AreRefusedByName) {
  const auto comm = one_rank();
  const auto with = [&](Json options) {
    return [&comm, options] { make_optimizer(spec_of(options), kStepLayout, *comm); };
  };
  EXPECT_THAT(with({{"reduce", "max"}}), ThrowsMessage<UserError>(HasSubstr("has no reduce 'max'; valid: sum, mean")));
  EXPECT_THAT(with({{"denominator", 0}}), ThrowsMessage<UserError>(HasSubstr("is 0; expected a number from 1e-09")));
  EXPECT_THAT(with({{"denominator", 3}, {"reduce", "mean"}}),
              ThrowsMessage<UserError>(HasSubstr("whose denominator is the number of workers")));
  for (const Json& row : list_exchanges()) {
    const Json options = {{"denominator", 3}, {"pattern", row["name"]}};
    if (row["replicated"] == false) {
      EXPECT_THAT(with(options), ThrowsMessage<UserError>(HasSubstr("by the mean of their own samples"))) << row;
    } else if (row["name"] != "quantised") {  // which needs a coder
      EXPECT_NO_THROW(with(options)()) << row;
    }
  }
  EXPECT_THAT(with({{"clip_norm", -1}}), ThrowsMessage<UserError>(HasSubstr("is -1; expected a number from 0")));
  EXPECT_THAT(with({{"loss_scale", 100}}), ThrowsMessage<UserError>(HasSubstr("a power of two")));
  EXPECT_THAT(with({{"loss_scale", 128}, {"loss_scale_interval", 0}}),
              ThrowsMessage<UserError>(HasSubstr("is 0; expected a whole number from 1")));
  EXPECT_THAT(with({{"averaging_patience", 1.5}}), ThrowsMessage<UserError>(HasSubstr("a whole number")));
}

// ---- loss scaling ---------------------------------------------------------------------------------------------------

const Json kScaled = {{"loss_scale", 1024}, {"loss_scale_interval", 128}, {"loss_scale_maximum", 8192}};

Json with_scale(const Json& options) {
  Json all = kScaled;
  all.update(options);
  return all;
}

TEST(LossScale, LeavesTheBitsOfTheUpdate) {
  const auto comm = one_rank();
  const std::pair<const char*, Json> cases[] = {
      {"centralized_sgd", {{"momentum", 0.9}, {"weight_decay", 0.01}}},
      {"centralized_sgd", {{"momentum", 0.9}, {"clip_norm", 0.3}}},
      {"centralized_adam", {{"betas", {0.9, 0.98}}, {"eps", 1e-9}, {"clip_norm", 0.3}}}};
  for (const auto& [name, options] : cases) {
    SCOPED_TRACE(options.dump());
    const auto plain = make_optimizer(spec_of(options, name), kStepLayout, *comm);
    const auto scaled = make_optimizer(spec_of(with_scale(options), name), kStepLayout, *comm);
    FlatTensors expected{flat_of(1), flat_of(0)}, tensors{flat_of(1), flat_of(0)};
    for (int step = 0; step < 300; ++step) {
      expected.gradients.copy_(gradient_of(step, 1));
      tensors.gradients.copy_(gradient_of(step, static_cast<float>(scaled->loss_scale())));
      exchange(*plain, expected, step);
      exchange(*scaled, tensors, step);
      const StepOutcome one = plain->step(expected, 0.01), other = scaled->step(tensors, 0.01);
      EXPECT_EQ(other.gradient_norm.value(), one.gradient_norm.value_or(*other.gradient_norm));
    }
    EXPECT_TRUE(at::equal(tensors.parameters, expected.parameters));
    EXPECT_EQ(scaled->loss_scale(), 4096);  // after 128 and 256 steps
  }
}

TEST(LossScale, AnOverflowOnOneRankMakesAllSkipAndHalve) {
  for (const DType wire : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const Json& division :
         {Json::object(), Json{{"by_layer", true}}, Json{{"by_layer", true}, {"overlap", true}}}) {
      for (const float poison : {kInfinity, -kInfinity, std::nanf("")}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(wire), division.dump(), poison));
        on_wired_ranks(3, wire, [&](int rank, comm::Communicator& comm) {
          Json options = with_scale({{"momentum", 0.5}});
          options.update(division);
          const auto optimizer = make_optimizer(spec_of(options), kStepLayout, comm);
          FlatTensors tensors{flat_of(1), flat_of(0.25F)};
          exchange(*optimizer, tensors, 0);
          EXPECT_FALSE(optimizer->step(tensors, 0.5).skipped);
          const at::Tensor before = tensors.parameters.clone();
          NamedState state;
          optimizer->export_state(state);

          tensors.gradients = flat_of(0.25F);
          if (rank == 1) tensors.gradients[20].fill_(poison);
          exchange(*optimizer, tensors, 1);
          EXPECT_TRUE(optimizer->step(tensors, 0.5).skipped) << rank;
          EXPECT_TRUE(at::equal(tensors.parameters, before));
          EXPECT_EQ(optimizer->loss_scale(), 512);
          EXPECT_EQ(optimizer->skipped_steps(), 1);
          NamedState after;
          optimizer->export_state(after);
          EXPECT_EQ(after.integer("optimizer/momentum_steps"), 1);
          EXPECT_EQ(after.tensor("optimizer/momentum/b").bytes, state.tensor("optimizer/momentum/b").bytes);

          tensors.gradients = flat_of(0.25F);
          exchange(*optimizer, tensors, 2);
          EXPECT_FALSE(optimizer->step(tensors, 0.5).skipped);
          EXPECT_FALSE(at::equal(tensors.parameters, before));
        });
      }
    }
  }
}

// Infinities of both signs on different ranks cancel to a NaN; a share that only the wire cannot hold is an overflow.
TEST(LossScale, WhatTheSumCannotHoldIsSkippedToo) {
  const std::pair<DType, float> cases[] = {
      {DType::kFloat32, kInfinity}, {DType::kFloat32, 3e38F}, {DType::kFloat16, 60000}, {DType::kBFloat16, 3e38F}};
  for (const auto& [wire, value] : cases) {
    on_wired_ranks(2, wire, [&, share = value](int rank, comm::Communicator& comm) {
      const auto optimizer = make_optimizer(spec_of(kScaled), kStepLayout, comm);
      FlatTensors tensors{flat_of(1), flat_of(std::isinf(share) && rank == 1 ? -share : share)};
      exchange(*optimizer, tensors, 0);
      EXPECT_TRUE(optimizer->step(tensors, 1).skipped) << share;
    });
  }
}

TEST(LossScale, ItsPathOverAThousandStepsIsTheSameOnAllRanksAndEqualsASimulation) {
  std::vector<double> paths[2];
  const auto overflows = [](int step) { return step % 97 == 50 || step == 700 || step == 701; };
  on_wired_ranks(2, DType::kFloat32, [&](int rank, comm::Communicator& comm) {
    auto optimizer = make_optimizer(spec_of(with_scale({{"loss_scale_interval", 20}})), kStepLayout, comm);
    FlatTensors tensors{flat_of(1), flat_of(0)};
    for (int step = 0; step < 1000; ++step) {
      tensors.gradients = gradient_of(step, static_cast<float>(optimizer->loss_scale()));
      if (overflows(step) && rank == step % 2) tensors.gradients[0].fill_(kInfinity);
      exchange(*optimizer, tensors, step);
      EXPECT_EQ(optimizer->step(tensors, 1e-3).skipped, overflows(step));
      paths[rank].push_back(optimizer->loss_scale());
      if (step == 555) {  // as resumed there
        NamedState state;
        optimizer->export_state(state);
        optimizer = make_optimizer(spec_of(with_scale({{"loss_scale_interval", 20}})), kStepLayout, comm);
        optimizer->import_state(state);
      }
    }
  });
  double scale = 1024;
  int good = 0;
  for (int step = 0; step < 1000; ++step) {
    good = overflows(step) ? 0 : good + 1;
    if (overflows(step)) scale /= 2;
    if (good == 20) {
      scale = std::min(8192.0, 2 * scale);
      good = 0;
    }
    ASSERT_EQ(paths[0][static_cast<size_t>(step)], scale) << step;
  }
  EXPECT_EQ(paths[0], paths[1]);
}

// Each rank's share is S times a sum of losses; the sum over ranks is divided by S and the step's weight. Beside the
// same in float64, by SGD's equation.
TEST(LossScale, WhatIsDividedBehindTheSumEqualsFloat64) {
  constexpr double kWeight = 131'071, kRate = 0.5, kClip = 0.75;
  for (const double clip : {0.0, kClip}) {
    on_wired_ranks(3, DType::kFloat32, [&](int rank, comm::Communicator& comm) {
      const auto optimizer = make_optimizer(spec_of(with_scale({{"clip_norm", clip}})), kStepLayout, comm);
      FlatTensors tensors{flat_of(1), flat_of(0)};
      at::Tensor exact = flat_of(1).to(at::kDouble);
      for (int step = 0; step < 5; ++step) {
        const auto share = [&](int of) { return gradient_of(step, static_cast<float>((0.3 + of) * kWeight / 8)); };
        at::Tensor gradient = at::zeros({32}, at::kDouble);
        for (const int of : {0, 1, 2}) gradient += share(of).to(at::kDouble) / kWeight;
        const double norm = gradient.norm().item<double>();
        const double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
        exact -= kRate * factor * gradient;

        tensors.gradients.copy_(share(rank) * optimizer->loss_scale());
        exchange(*optimizer, tensors, step);
        const StepOutcome outcome = optimizer->step(tensors, kRate, kWeight);
        EXPECT_FALSE(outcome.skipped);
        EXPECT_EQ(outcome.clipped, factor < 1);
        EXPECT_NEAR(outcome.gradient_norm.value(), norm, 1e-6 * norm);
      }
      EXPECT_LT((tensors.parameters.to(at::kDouble) - exact).abs().max().item<double>(), 1e-5);
      EXPECT_GT((exact - flat_of(1)).abs().max().item<double>(), 0.1) << "something was learned";
    });
  }
}

TEST(LossScale, NeedsRanksThatSeeEachOthersOverflows) {
  on_wired_ranks(2, DType::kFloat32, [](int rank, comm::Communicator& comm) {
    auto coder = std::make_unique<compress::ErrorMemoryCoder>(compress::CoderContext{kStepLayout, 42, rank});
    auto exchange =
        std::make_unique<CentralizedExchange>(ExchangeContext{comm, *coder, kStepLayout}, CentralizedOptions());
    StepOptions options;
    options.loss_scale.initial = 128;
    EXPECT_THROW(Optimizer(std::make_unique<SgdRule>(SgdOptions(), kStepLayout), std::move(coder), std::move(exchange),
                           kStepLayout, options),
                 UserError);
  });
}

// ---- averaged weights -----------------------------------------------------------------------------------------------

TEST(AveragedWeights, AreThoseBehindTheUpdatesSinceTheTrigger) {
  const auto comm = one_rank();
  auto optimizer = make_optimizer(spec_of(with_scale({{"averaging_patience", 2}})), kStepLayout, *comm);
  FlatTensors tensors{flat_of(0), flat_of(0)};
  const auto step = [&](float gradient) {
    tensors.gradients = flat_of(gradient * static_cast<float>(optimizer->loss_scale()));
    exchange(*optimizer, tensors, 0);
    optimizer->step(tensors, 1);
  };
  const auto average = [&] {
    optimizer->swap_average(tensors);
    const float value = tensors.parameters[16].item<float>();
    optimizer->swap_average(tensors);
    return value;
  };
  step(-1);
  for (const double loss : {3.0, 4.0}) optimizer->on_evaluation(loss);
  EXPECT_FALSE(optimizer->averages());
  step(-1);
  EXPECT_EQ(average(), 2);
  optimizer->on_evaluation(3);
  EXPECT_TRUE(optimizer->averages());
  for (const float gradient : {-1.0F, -1.0F, kInfinity, -2.0F}) step(gradient);  // 3, 4, skipped, 6
  EXPECT_EQ(tensors.parameters[16].item<float>(), 6);
  EXPECT_EQ(average(), 5);

  NamedState state;
  optimizer->swap_average(tensors);
  optimizer->export_state(state);
  optimizer = make_optimizer(spec_of(with_scale({{"averaging_patience", 2}})), kStepLayout, *comm);
  optimizer->import_state(state);
  optimizer->swap_average(tensors);
  step(-2);  // 8
  EXPECT_EQ(tensors.parameters[16].item<float>(), 8);
  EXPECT_EQ(average(), 6);
  EXPECT_EQ(optimizer->skipped_steps(), 1);
}

}  // namespace
}  // namespace mlbench::optim
