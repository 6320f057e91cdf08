#include "mlbench/report/study/stages.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "mlbench/base/random.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;
using Kind = StageVerdict::Kind;

TEST(Stages, NamesTheSlowestWithTheNumbersThatProveIt) {
  const StageVerdict decode = stage_verdict({0.0625, 0.25, 0.125, 0.0}, {0.5, 0.25});
  EXPECT_EQ(decode.kind, Kind::kNamed);
  EXPECT_EQ(decode.slowest, Stage::kDecode);
  EXPECT_DOUBLE_EQ(decode.share, 0.5);
  EXPECT_DOUBLE_EQ(decode.lead, 2);
  EXPECT_EQ(decode.text, "decode: alone 50 % of the step, 2.00 times compute");
  EXPECT_EQ(to_json(decode),
            (Json{{"kind", "named"}, {"stage", "decode"}, {"share", 0.5}, {"lead", 2.0}, {"text", decode.text}}));
  EXPECT_EQ(stage_verdict({0.0, 0.0, 0.1, 0.0}, {0.1, 0.0}).text, "compute: alone 100 % of the step");
}

TEST(Stages, NamesNobodyBelowALeadOfAQuarterOrHalfOfTheStep) {
  EXPECT_EQ(stage_verdict({0.01, 0.0, 0.05, 0.07}, {0.12, 0.0}).kind, Kind::kNamed);
  const StageVerdict close = stage_verdict({0.01, 0.0, 0.06, 0.07}, {0.13, 0.0});
  EXPECT_EQ(close.kind, Kind::kBalanced);
  EXPECT_EQ(
      close.text,
      "balanced: the slowest is exchange, alone 54 % of the step, 1.17 times compute; the step waits for data for 0 %");
  EXPECT_EQ(to_json(close)["kind"], "balanced");
  EXPECT_EQ(stage_verdict({0.03, 0.03, 0.045, 0.03}, {0.1, 0.0}).kind, Kind::kBalanced);
}

TEST(Stages, AnInputThatNobodyWaitsForIsNoBottleneck) {
  const StageTimes alone = {0.06, 0.01, 0.045, 0.045};
  EXPECT_EQ(stage_verdict(alone, {0.09, 0.001}).kind, Kind::kBalanced);
  EXPECT_EQ(stage_verdict(alone, {0.1, 0.011}).kind, Kind::kNamed);
}

TEST(Stages, ComputationIsNoBottleneckOfStepsThatWaitForData) {
  EXPECT_EQ(stage_verdict({0.07, 0.07, 0.1, 0.0}, {0.14, 0.04}).kind, Kind::kBalanced);
}

TEST(Stages, SaysWhatIsNotKnown) {
  const auto why = [](const StageTimes& alone, const StepTime& step) {
    const StageVerdict verdict = stage_verdict(alone, step);
    EXPECT_EQ(verdict.kind, Kind::kNotKnown);
    EXPECT_FALSE(verdict.slowest);
    EXPECT_EQ(to_json(verdict)["stage"], nullptr);
    return verdict.text;
  };
  EXPECT_EQ(why({0.0, std::nullopt, 0.1, 0.0}, {0.1, 0.0}), "not known: decode was not measured alone");
  EXPECT_THAT(why({0.0, 0.0, 0.1, 0.0}, {}), HasSubstr("no time of its steps"));
  EXPECT_THAT(why({0.0, 0.0, 0.1, 0.0}, {0.1, {}}), HasSubstr("no time of its steps"));
  EXPECT_EQ(why({0.0, 0.0, 0.12, 0.0}, {0.1, 0.0}), "not known: compute alone takes 1.20 times the step");
  EXPECT_EQ(why({0.01, 0.01, 0.03, 0.01}, {0.1, 0.0}),
            "not known: the stages take 60 % of the step, something else the rest");
}

// A made run of a rank: a loader that reads and then decodes one batch after the other into a ring of three, and steps
// that take a batch, compute and exchange. Each time of a stage varies by a tenth.
class MadeRun {
 public:
  MadeRun(const std::array<double, kStages>& seconds, uint64_t seed) : seconds_(seconds), random_(seed) {}

  StageTimes alone() {
    StageTimes times;
    for (size_t i = 0; i < kStages; ++i) {
      double sum = 0;
      for (int step = 0; step < kSteps; ++step) sum += draw(static_cast<Stage>(i));
      times[i] = sum / kSteps;
    }
    return times;
  }

  StepTime steps() {
    constexpr int kRing = 3;
    std::array<double, kSteps> taken{};
    double loaded = 0, now = 0, waited = 0;
    for (size_t step = 0; step < kSteps; ++step) {
      const double free = step < kRing ? 0 : taken[step - kRing];
      loaded = std::max(loaded, free) + draw(Stage::kRead) + draw(Stage::kDecode);
      waited += std::max(0.0, loaded - now);
      taken[step] = std::max(now, loaded);
      now = taken[step] + draw(Stage::kCompute) + draw(Stage::kExchange);
    }
    return {now / kSteps, waited / kSteps};
  }

 private:
  static constexpr int kSteps = 50;
  double draw(Stage stage) { return seconds_[static_cast<size_t>(stage)] * (0.9 + 0.2 * random_.uniform()); }

  std::array<double, kStages> seconds_;
  RandomSequence random_;
};

// All stages alike within 8 %, except that `slow` takes 1.8 to 4 times its time.
StageVerdict verdict_of_trial(uint64_t seed, std::optional<Stage> slow) {
  RandomSequence random(derive_key(7, {seed}));
  std::array<double, kStages> seconds{};
  for (double& one : seconds) one = 0.1 * (0.92 + 0.16 * random.uniform());
  if (slow) seconds[static_cast<size_t>(*slow)] *= 1.8 + 2.2 * random.uniform();
  MadeRun run(seconds, derive_key(8, {seed}));
  const StageTimes alone = run.alone();
  return stage_verdict(alone, run.steps());
}

TEST(Stages, TheSlowedStageIsNamedInTrials) {
  int right = 0;
  for (uint64_t trial = 0; trial < 20; ++trial) {
    const auto slow = static_cast<Stage>(trial % kStages);
    const StageVerdict verdict = verdict_of_trial(trial, slow);
    if (verdict.kind == Kind::kNamed && verdict.slowest == slow) ++right;
  }
  EXPECT_GE(right, 19);
}

TEST(Stages, NobodyIsNamedInBalancedTrials) {
  for (uint64_t trial = 0; trial < 20; ++trial) {
    const StageVerdict verdict = verdict_of_trial(trial, std::nullopt);
    EXPECT_EQ(verdict.kind, Kind::kBalanced) << "trial " << trial << ": " << verdict.text;
  }
}

}  // namespace
}  // namespace mlbench::report
