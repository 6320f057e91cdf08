#include "mlbench/optim/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"

namespace mlbench::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr LossScaleOptions kTask4a{.initial = 1024, .interval = 128, .maximum = 8192};
constexpr LossScaleOptions kTask4b{.initial = 128, .interval = 2000};

void good_steps(LossScaler& scaler, int count) {
  for (int i = 0; i < count; ++i) scaler.update(true);
}

TEST(LossScaler, Task4aDoublesEvery128GoodStepsUpToItsMaximum) {
  LossScaler scaler(kTask4a);
  good_steps(scaler, 127);
  EXPECT_EQ(scaler.scale(), 1024);
  good_steps(scaler, 1);
  EXPECT_EQ(scaler.scale(), 2048);
  good_steps(scaler, 128);
  EXPECT_EQ(scaler.scale(), 4096);
  good_steps(scaler, 100);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 2048);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  good_steps(scaler, 127);  // counted from the skipped step
  EXPECT_EQ(scaler.scale(), 2048);
  good_steps(scaler, 1 + 128);
  EXPECT_EQ(scaler.scale(), 8192);
  good_steps(scaler, 1000);
  EXPECT_EQ(scaler.scale(), 8192);
  scaler.update(false);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 2048);
  EXPECT_EQ(scaler.skipped_steps(), 3);
}

TEST(LossScaler, Task4bDoublesAfterAWindowOf2000Steps) {
  LossScaler scaler(kTask4b);
  good_steps(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 128);
  good_steps(scaler, 1);
  EXPECT_EQ(scaler.scale(), 256);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 128);
  good_steps(scaler, 4000);
  EXPECT_EQ(scaler.scale(), 512);
}

// The rule as it is written down, by positions in the list of all steps instead of a count that is kept.
double simulated_scale(const LossScaleOptions& options, const std::vector<bool>& finite) {
  double scale = options.initial;
  size_t from = 0;  // of the steps that count for the next growth
  for (size_t step = 0; step < finite.size(); ++step) {
    if (!finite[step]) {
      scale /= 2;
      from = step + 1;
    } else if (step + 1 - from == static_cast<size_t>(options.interval)) {
      scale = scale * 2 > options.maximum ? options.maximum : scale * 2;
      from = step + 1;
    }
  }
  return scale;
}

TEST(LossScaler, ItsPathOverAThousandStepsEqualsASimulation) {
  for (const LossScaleOptions& options : {kTask4a, LossScaleOptions{.initial = 128, .interval = 20}}) {
    RandomSequence random(7);
    LossScaler scaler(options);
    std::vector<bool> finite;
    for (int step = 0; step < 1000; ++step) {
      finite.push_back(random.uniform() > 1.0 / 60);
      scaler.update(finite.back());
      ASSERT_EQ(scaler.scale(), simulated_scale(options, finite)) << "step " << step;
    }
    EXPECT_EQ(scaler.skipped_steps(), std::count(finite.begin(), finite.end(), false));
    EXPECT_GT(scaler.skipped_steps(), 5);
  }
}

TEST(LossScaler, ResumesAtAnyStep) {
  for (const int at : {0, 1, 127, 128, 150, 200}) {
    const auto run = [](LossScaler& scaler, int first, int last) {
      for (int step = first; step < last; ++step) scaler.update(step != 20 && step != 150);
    };
    LossScaler whole(kTask4a), first(kTask4a), second(kTask4a);
    run(whole, 0, 400);
    run(first, 0, at);
    NamedState state;
    first.export_state(state);
    second.import_state(state);
    EXPECT_EQ(second.scale(), first.scale());
    run(second, at, 400);
    EXPECT_EQ(second.scale(), whole.scale()) << at;
    EXPECT_EQ(second.skipped_steps(), 2);
  }
  EXPECT_THROW(LossScaler(kTask4a).import_state({}), UserError);
}

TEST(LossScaler, EndsTrainingThatDiverges) {
  LossScaler scaler(kTask4a);
  for (int step = 0; step < 23; ++step) scaler.update(false);  // 2^-13
  EXPECT_THAT([&] { scaler.update(false); },
              ThrowsMessage<UserError>(HasSubstr("after 24 skipped steps: training diverges")));
}

TEST(LossScaler, RefusesScalesThatWouldRound) {
  const auto error_with = [](auto change) {
    LossScaleOptions options = kTask4a;
    change(options);
    try {
      const LossScaler scaler(options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_with([](LossScaleOptions& o) { o.initial = 1000; }),
              HasSubstr("loss_scale is 1000; expected a power of two"));
  EXPECT_THAT(error_with([](LossScaleOptions& o) { o.growth = 1.5; }), HasSubstr("loss_scale_growth is 1.5"));
  EXPECT_THAT(error_with([](LossScaleOptions& o) { o.backoff = 0.3; }), HasSubstr("loss_scale_backoff is 0.3"));
  EXPECT_THAT(error_with([](LossScaleOptions& o) { o.backoff = 1; }), HasSubstr("loss_scale_backoff is 1"));
  EXPECT_THAT(error_with([](LossScaleOptions& o) { o.maximum = 512; }),
              HasSubstr("loss_scale is 1024; expected more than 0.0001 and at most loss_scale_maximum, 512"));
  EXPECT_EQ(error_with([](LossScaleOptions&) {}), "");
}

}  // namespace
}  // namespace mlbench::optim
