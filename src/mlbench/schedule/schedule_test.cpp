#include "mlbench/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mlbench/base/errors.h"

namespace mlbench::schedule {
namespace {

using spec::ScheduleSpec;

void expect_lr(const Schedule& schedule, int64_t step, double expected) {
  EXPECT_NEAR(schedule.lr(step), expected, 1e-12 * expected) << "at step " << step;
}

template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
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
  EXPECT_EQ(error_with([](ScheduleSpec& s) { s.warmup = "slow"; }),
            "unknown schedule.warmup 'slow'; valid: none, epochs, log2_workers");
  EXPECT_EQ(error_with([](ScheduleSpec& s) { s.decay = "cosine"; }),
            "unknown schedule.decay 'cosine'; valid: constant, multistep, plateau, inverse_sqrt");
}

}  // namespace
}  // namespace mlbench::schedule
