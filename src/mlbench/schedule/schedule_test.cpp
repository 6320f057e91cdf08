#include "mlbench/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"
#include "mlbench/base/test_odd_values.h"

namespace mlbench::schedule {
namespace {

using spec::ScheduleSpec;

void expect_lr(const Schedule& schedule, int64_t step, double expected) {
  EXPECT_NEAR(schedule.lr(step), expected, 1e-12 * expected) << "at step " << step;
}

// 1a by the 2018 rules: b = 32, 0.1/256 per sample; linear from 0.0125 to 0.0125 k within 5 epochs; x0.1 at 82 and 109.
ScheduleSpec rules_1a_2018() {
  ScheduleSpec spec;
  spec.scaling = "linear";
  spec.warmup = "epochs";
  spec.warmup_epochs = 5;
  spec.decay = "multistep";
  spec.milestones = {82, 109};
  spec.factor = 0.1;
  return spec;
}

TEST(Schedule, Task1aRules2018) {
  constexpr int64_t kStepsPerEpoch = 391;  // ceil(50,000 / (32 * 4))
  const auto schedule = make_schedule(rules_1a_2018(), {0.1 / 256 * 32, 4, kStepsPerEpoch});
  expect_lr(*schedule, 0, 0.0125);
  expect_lr(*schedule, 391, 0.0125 + 0.0375 / 5);  // one of five epochs
  expect_lr(*schedule, 1954, 0.05 - 0.0375 / 1955);
  expect_lr(*schedule, 1955, 0.05);
  expect_lr(*schedule, 82 * 391 - 1, 0.05);
  expect_lr(*schedule, 82 * 391, 0.005);
  expect_lr(*schedule, 109 * 391 - 1, 0.005);
  expect_lr(*schedule, 109 * 391, 0.0005);
  expect_lr(*schedule, 164 * 391, 0.0005);
}

// 1a-tf: 0.1, 0.01 and 0.001 from steps 32000 / k and 48000 / k on. With k = 3 these are 10666.67 and 16000.
TEST(Schedule, MilestonesInStepsOfAllWorkers) {
  ScheduleSpec spec;
  spec.decay = "multistep";
  spec.milestones = {32000, 48000};
  spec.milestone_unit = "steps_of_workers";
  spec.factor = 0.1;
  struct Case {
    int64_t workers, first, second;
  };
  for (const Case& one : {Case{1, 32000, 48000}, {2, 16000, 24000}, {3, 10666, 16000}, {4, 8000, 12000}}) {
    SCOPED_TRACE(one.workers);
    // The number of steps in an epoch does not matter.
    const auto schedule = make_schedule(spec, {.base_lr = 0.1, .workers = one.workers, .steps_per_epoch = 7});
    expect_lr(*schedule, 0, 0.1);
    expect_lr(*schedule, one.first - 1, 0.1);
    expect_lr(*schedule, one.first, 0.01);
    expect_lr(*schedule, one.second - 1, 0.01);
    expect_lr(*schedule, one.second, 0.001);
  }
}

ScheduleSpec plateau() {
  ScheduleSpec spec;
  spec.scaling = "linear";
  spec.decay = "plateau";
  spec.factor = 0.5;
  spec.patience = 2;
  spec.threshold = 0.01;
  spec.floor = 1e-3;
  return spec;
}

TEST(Schedule, Task1aRules2021) {
  ScheduleSpec spec = plateau();
  spec.warmup = "log2_workers";
  constexpr int64_t kEpoch = 49;  // ceil(50,000 / (128 * 8))
  const auto schedule = make_schedule(spec, {0.02, 8, kEpoch});
  expect_lr(*schedule, 0, 0.02);
  expect_lr(*schedule, kEpoch, 0.02 + 0.14 / 3);  // log2(8) = 3 epochs of warm-up
  expect_lr(*schedule, 3 * kEpoch - 1, 0.16 - 0.14 / 147);
  expect_lr(*schedule, 3 * kEpoch, 0.16);

  schedule->on_evaluation(1 * kEpoch, 0.1);  // during the warm-up: does not count
  schedule->on_evaluation(2 * kEpoch, 0.1);
  schedule->on_evaluation(3 * kEpoch, 1.00);   // best
  schedule->on_evaluation(4 * kEpoch, 0.995);  // improved by less than 0.01: 1st
  expect_lr(*schedule, 5 * kEpoch, 0.16);
  schedule->on_evaluation(5 * kEpoch, 0.991);  // 2nd: halved from here on
  expect_lr(*schedule, 5 * kEpoch - 1, 0.16);  // the past stays as it was
  expect_lr(*schedule, 5 * kEpoch, 0.08);
  schedule->on_evaluation(6 * kEpoch, 0.9921);        // 1st
  schedule->on_evaluation(7 * kEpoch, 0.98);          // improved
  schedule->on_evaluation(8 * kEpoch, std::nan(""));  // 1st
  expect_lr(*schedule, 8 * kEpoch, 0.08);
  schedule->on_evaluation(9 * kEpoch, 1.5);  // 2nd
  expect_lr(*schedule, 9 * kEpoch, 0.04);
}

TEST(Schedule, PlateauImprovementOfExactlyTheThresholdCounts) {
  ScheduleSpec spec = plateau();
  spec.threshold = 0.25;
  const auto schedule = make_schedule(spec, {1, 1, 1});
  for (int i = 0; i < 10; ++i) schedule->on_evaluation(i + 1, 10 - 0.25 * i);
  EXPECT_EQ(schedule->lr(100), 1);
}

TEST(Schedule, PlateauSeesNoImprovementInOddValues) {
  for (const Json& row : odd_values("plateau")) {
    SCOPED_TRACE(row.dump());
    ScheduleSpec spec = plateau();
    spec.patience = row["patience"];
    const auto schedule = make_schedule(spec, {1, 1, 1});
    for (size_t i = 0; i < row["losses"].size(); ++i) {
      schedule->on_evaluation(static_cast<int64_t>(i) + 1, odd_value(row["losses"][i]));
      expect_lr(*schedule, 100, std::pow(spec.factor, row["reductions"][i].get<int>()));
    }
  }
}

TEST(Schedule, PlateauStopsAtItsFloor) {
  const auto schedule = make_schedule(plateau(), {0.02, 1, 391});
  schedule->on_evaluation(1, 1.0);
  for (int evaluation = 2; evaluation < 100; ++evaluation) schedule->on_evaluation(evaluation, 1.0);
  // 2^-10 < 1e-3 < 2^-9.
  expect_lr(*schedule, 19, 0.02 / 512);
  expect_lr(*schedule, 21, 0.02 * 1e-3);
  expect_lr(*schedule, 1000, 0.02 * 1e-3);
}

TEST(Schedule, Task2aRules2021) {
  const auto schedule = make_schedule(plateau(), {4, 16, 196});
  expect_lr(*schedule, 0, 64);
  expect_lr(*schedule, 100000, 64);
}

TEST(Schedule, Task2aRules2018) {
  ScheduleSpec spec;
  spec.scaling = "table";
  spec.lr_by_workers = {{1, 200}, {2, 400}, {4, 600}, {8, 700}, {16, 800}, {32, 800}, {64, 800}};
  spec.decay = "inverse_sqrt";
  const auto schedule = make_schedule(spec, {200, 8, 500});
  expect_lr(*schedule, 0, 700);
  expect_lr(*schedule, 3, 350);
  expect_lr(*schedule, 9999, 7);
  EXPECT_THAT(error_of([&] {
                make_schedule(spec, {200, 3, 500});
              }),
              testing::AllOf(testing::HasSubstr("no learning rate for 3 workers, only for 1, 2, 4, 8, 16, 32, 64"),
                             testing::HasSubstr("--set schedule.lr_by_workers.3=RATE")));
}

// 5a: linear scaling, 5 epochs of warm-up, nothing to warm up with one worker.
TEST(Schedule, Task5a) {
  ScheduleSpec spec;
  spec.scaling = "linear";
  spec.warmup = "epochs";
  spec.warmup_epochs = 5;
  const auto one = make_schedule(spec, {0.05, 1, 600});
  for (const int64_t step : {0, 1, 2999, 3000, 24000}) EXPECT_EQ(one->lr(step), 0.05);
  const auto two = make_schedule(spec, {0.05, 2, 300});
  expect_lr(*two, 0, 0.05);
  expect_lr(*two, 750, 0.075);
  expect_lr(*two, 1499, 0.1 - 0.05 / 1500);
  expect_lr(*two, 1500, 0.1);
  expect_lr(*two, 11999, 0.1);
}

TEST(Schedule, SquareRootScaling) {
  ScheduleSpec spec;
  spec.scaling = "sqrt";
  expect_lr(*make_schedule(spec, {30, 16, 373}), 0, 120);
}

// 3a: 30 to 30 * sqrt(k) within 3k epochs, times the drawn length over 70.
TEST(Schedule, Task3a) {
  ScheduleSpec spec;
  spec.scaling = "sqrt";
  spec.warmup = "worker_epochs";
  spec.warmup_epochs = 3;
  spec.by_length = true;
  constexpr int64_t kEpoch = 100;
  const auto four = make_schedule(spec, {30, 4, kEpoch});
  expect_lr(*four, 0, 30);
  expect_lr(*four, 300, 37.5);  // a quarter of 12 epochs
  expect_lr(*four, 1199, 60 - 30.0 / 1200);
  expect_lr(*four, 1200, 60);
  expect_lr(*four, 75000, 60);
  EXPECT_DOUBLE_EQ(four->lr(1200, {.relative_length = 35.0 / 70}), 30);
  EXPECT_DOUBLE_EQ(four->lr(300, {.relative_length = 77.0 / 70}), 41.25);
  const auto one = make_schedule(spec, {30, 1, kEpoch});
  for (const int64_t step : {0, 150, 300, 1000}) EXPECT_EQ(one->lr(step), 30);
  EXPECT_EQ(one->lr(0, {.relative_length = 0.5}), 15);
  spec.by_length = false;
  EXPECT_EQ(make_schedule(spec, {30, 1, kEpoch})->lr(0, {.relative_length = 0.5}), 30) << "only where it is asked for";
}

// 4a: 0.01^((200 - t) / 200) for 200 steps, halved at 40, 45, 50 and 55 % of all steps.
TEST(Schedule, Task4a) {
  ScheduleSpec spec;
  spec.warmup = "exponential";
  spec.warmup_steps = 200;
  spec.warmup_factor = 0.01;
  spec.decay = "fractions";
  spec.fractions = {0.4, 0.45, 0.5, 0.55};
  spec.factor = 0.5;
  const auto schedule = make_schedule(spec, {2e-3, 8, 2197, 8 * 2197});  // 17,576 steps
  expect_lr(*schedule, 0, 2e-5);
  expect_lr(*schedule, 100, 2e-4);
  expect_lr(*schedule, 150, 2e-3 / std::sqrt(10));
  expect_lr(*schedule, 199, 2e-3 * 0.9772372209558107);  // 10^(-1/100)
  expect_lr(*schedule, 200, 2e-3);
  expect_lr(*schedule, 7029, 2e-3);  // 7,030.4, 7,909.2, 8,788 and 9,666.8
  expect_lr(*schedule, 7030, 1e-3);
  expect_lr(*schedule, 7908, 1e-3);
  expect_lr(*schedule, 7909, 5e-4);
  expect_lr(*schedule, 8787, 5e-4);
  expect_lr(*schedule, 8788, 2.5e-4);
  expect_lr(*schedule, 9666, 2.5e-4);
  expect_lr(*schedule, 9667, 1.25e-4);
  expect_lr(*schedule, 17575, 1.25e-4);
}

// 4b: from 0 in 1000 steps, then sqrt(1000 / t).
TEST(Schedule, Task4b) {
  ScheduleSpec spec;
  spec.warmup = "linear_steps";
  spec.warmup_steps = 1000;
  spec.warmup_from = "zero";
  spec.decay = "inverse_sqrt_after_warmup";
  const auto schedule = make_schedule(spec, {1.976e-3, 4, 1000});
  EXPECT_EQ(schedule->lr(0), 0);
  expect_lr(*schedule, 1, 1.976e-6);
  expect_lr(*schedule, 250, 4.94e-4);
  expect_lr(*schedule, 999, 1.974024e-3);
  expect_lr(*schedule, 1000, 1.976e-3);
  expect_lr(*schedule, 1001, 1.976e-3 * std::sqrt(1000.0 / 1001));
  expect_lr(*schedule, 4000, 9.88e-4);
  expect_lr(*schedule, 100000, 1.976e-4);
}

TEST(Schedule, LinearStepsBeginAtTheRateOfOneWorker) {
  ScheduleSpec spec;
  spec.scaling = "linear";
  spec.warmup = "linear_steps";
  spec.warmup_steps = 10;
  const auto schedule = make_schedule(spec, {0.5, 3, 1000});
  expect_lr(*schedule, 0, 0.5);
  expect_lr(*schedule, 5, 1);
  expect_lr(*schedule, 10, 1.5);
}

TEST(Schedule, ADecayAfterAWarmUpOfNoStepCountsFromTheFirst) {
  ScheduleSpec spec;
  spec.warmup = "log2_workers";  // none for one worker
  spec.decay = "inverse_sqrt_after_warmup";
  const auto schedule = make_schedule(spec, {1, 1, 100});
  for (const int64_t step : {0, 1}) EXPECT_EQ(schedule->lr(step), 1);
  expect_lr(*schedule, 4, 0.5);
}

TEST(Schedule, StateMakesACopyThatGoesOnAlike) {
  const auto original = make_schedule(plateau(), {0.02, 4, 98});
  NamedState empty;
  original->export_state(empty);  // also before any evaluation
  original->import_state(empty);
  for (int i = 1; i <= 4; ++i) original->on_evaluation(i * 98, 1.0);
  NamedState state;
  original->export_state(state);
  const auto copy = make_schedule(plateau(), {0.02, 4, 98});
  copy->import_state(state);
  for (int i = 5; i <= 9; ++i) {
    for (const auto& schedule : {original.get(), copy.get()}) schedule->on_evaluation(i * 98, i == 6 ? 0.5 : 1.0);
    for (int64_t step = 0; step < 1000; step += 7) EXPECT_EQ(original->lr(step), copy->lr(step));
  }
  EXPECT_LT(copy->lr(1000), 0.08);
  EXPECT_THROW(copy->import_state(NamedState{}), UserError);
}

TEST(Schedule, UnknownNamesListTheValidOnes) {
  const auto error_with = [](auto change) {
    ScheduleSpec spec;
    change(spec);
    return error_of([&] { make_schedule(spec, {0.1, 1, 1}); });
  };
  EXPECT_EQ(error_with([](ScheduleSpec& s) { s.scaling = "cubic"; }),
            "unknown schedule.scaling 'cubic'; valid: none, linear, sqrt, table");
  EXPECT_EQ(
      error_with([](ScheduleSpec& s) { s.warmup = "slow"; }),
      "unknown schedule.warmup 'slow'; valid: none, epochs, log2_workers, worker_epochs, linear_steps, exponential");
  EXPECT_EQ(error_with([](ScheduleSpec& s) { s.warmup_from = "one"; }),
            "unknown schedule.warmup_from 'one'; valid: lr, zero");
  EXPECT_EQ(error_with([](ScheduleSpec& s) { s.decay = "step"; }),
            "unknown schedule.decay 'step'; valid: constant, multistep, piecewise, fractions, plateau, inverse_sqrt, "
            "inverse_sqrt_after_warmup, cosine, polynomial, stable_decay, one_cycle, inverse_time");
}

// ---- decays over all steps ------------------------------------------------------------------------------------------

ScheduleSpec to_the_end(const std::string& decay, double floor) {
  ScheduleSpec spec;
  spec.decay = decay;
  spec.floor = floor;
  return spec;
}

// 101 steps, of which 20 are warm-up: the middle is step 60.
TEST(Schedule, CosineIsHalfAtTheMiddleBehindTheWarmUp) {
  ScheduleSpec spec = to_the_end("cosine", 0.1);
  spec.warmup = "linear_steps";
  spec.warmup_steps = 20;
  spec.warmup_from = "zero";
  const auto schedule = make_schedule(spec, {2, 1, 10, 101});
  expect_lr(*schedule, 10, 1);
  expect_lr(*schedule, 20, 2);
  expect_lr(*schedule, 60, 2 * 0.55);
  expect_lr(*schedule, 40, 2 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
  expect_lr(*schedule, 100, 0.2);
  expect_lr(*schedule, 500, 0.2);
}

TEST(Schedule, PolynomialEndsAtItsFloor) {
  ScheduleSpec spec = to_the_end("polynomial", 0.2);
  expect_lr(*make_schedule(spec, {1, 1, 10, 101}), 25, 0.2 + 0.8 * 0.75);
  spec.power = 2;
  const auto schedule = make_schedule(spec, {1, 1, 10, 101});
  expect_lr(*schedule, 0, 1);
  expect_lr(*schedule, 25, 0.2 + 0.8 * 0.75 * 0.75);
  expect_lr(*schedule, 100, 0.2);
}

TEST(Schedule, StableDecayFallsFromItsFractionOn) {
  ScheduleSpec spec = to_the_end("stable_decay", 0);
  spec.fractions = {0.8};
  const auto schedule = make_schedule(spec, {3, 1, 10, 101});  // from step 80.8 to 100
  expect_lr(*schedule, 80, 3);
  expect_lr(*schedule, 90, 3 * 10 / 19.2);
  EXPECT_NEAR(schedule->lr(100), 0, 1e-12);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=11, pct_start=0.4, div_factor=10, final_div_factor=100):
// the rise ends at step 3.4, the fall at step 10.
TEST(Schedule, OneCycleRisesAndFallsAlongCosines) {
  ScheduleSpec spec = to_the_end("one_cycle", 0.001);
  spec.fractions = {0.4};
  spec.factor = 0.1;
  const auto schedule = make_schedule(spec, {1, 1, 10, 11});
  expect_lr(*schedule, 0, 0.1);
  expect_lr(*schedule, 1, 1 - 0.9 * (1 + std::cos(M_PI / 3.4)) / 2);
  expect_lr(*schedule, 3, 1 - 0.9 * (1 + std::cos(M_PI * 3 / 3.4)) / 2);
  expect_lr(*schedule, 5, 0.001 + 0.999 * (1 + std::cos(M_PI * 1.6 / 6.6)) / 2);
  expect_lr(*schedule, 10, 0.001);
}

TEST(Schedule, PiecewiseHasAFactorForEachMilestone) {
  ScheduleSpec spec = to_the_end("piecewise", 0);
  spec.milestones = {2, 4};
  spec.factors = {0.5, 3};
  const auto schedule = make_schedule(spec, {0.1, 1, 10, 100});
  expect_lr(*schedule, 19, 0.1);
  expect_lr(*schedule, 20, 0.05);
  expect_lr(*schedule, 40, 0.3);
}

TEST(Schedule, InverseTimeIsShifted) {
  ScheduleSpec spec = to_the_end("inverse_time", 0);
  const auto shifted = make_schedule(spec, {6, 1, 10, 100});
  expect_lr(*shifted, 0, 6);
  expect_lr(*shifted, 2, 2);
  expect_lr(*shifted, 5, 1);
  spec.shift = 0;
  const auto schedule = make_schedule(spec, {6, 1, 10, 100});
  expect_lr(*schedule, 0, 6);  // max(1, 0)
  expect_lr(*schedule, 3, 2);
}

}  // namespace
}  // namespace mlbench::schedule
