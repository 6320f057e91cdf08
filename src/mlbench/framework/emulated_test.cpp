#include "mlbench/framework/emulated.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace mlbench::framework {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// Three tensors of 16, 32 and 48 elements. Its passes must not be called.
class Weights final : public Framework {
 public:
  Weights() : gradients_(96, 1.0F) {
    model_.parameters = {{"first", {16}, {}}, {"second", {32}, {}}, {"third", {40}, {}}};
    layout_ = models::lay_out(model_);
  }
  const FlatLayout& layout() const override { return layout_; }
  BufferView parameters() override { return {}; }
  BufferView gradients() override { return {gradients_.data(), std::ssize(gradients_), DType::kFloat32, {}}; }
  BufferView buffers() override { return {}; }
  void initialise() override {}
  void begin_step(int64_t) override {}
  void forward(const BatchView&, Mode) override { ADD_FAILURE() << "a pass is emulated"; }
  double loss() override { return 0; }
  MetricSums metric_sums() override { return {}; }
  void backward(const BackwardOptions&) override { ADD_FAILURE() << "a pass is emulated"; }
  void zero_gradients() override { gradients_.assign(gradients_.size(), 0.0F); }
  std::span<const float> outputs() override { return {}; }
  void on_gradient_ready(GradientReady) override { ADD_FAILURE() << "gradients are the accelerator's"; }
  Json effective() const override { return {{"name", "weights"}}; }
  Json versions() const override { return Json::object(); }

 private:
  models::ModelDescription model_;
  FlatLayout layout_;
  std::vector<float> gradients_;
};

class Emulated : public testing::Test {
 protected:
  struct Ready {
    int64_t first, count;
    Nanoseconds at;
    bool operator==(const Ready&) const = default;
  };

  Nanoseconds now() const { return clock_.now().time_since_epoch(); }
  void forward() {
    BatchView batch;
    batch.samples = batch.weight = 4;
    framework_->forward(batch, Mode::kTrain);
  }

  ManualClock clock_;
  std::unique_ptr<Framework> framework_ = emulate(
      std::make_unique<Weights>(), {.step = milliseconds(144), .clock = clock_, .wait_until = [this](TimePoint due) {
                                      if (due > clock_.now()) clock_.advance(due - clock_.now());
                                    }});
  std::vector<Ready> ready_;
};

TEST_F(Emulated, AStepTakesItsTimeAndGradientsBecomeReadyFromTheLastOn) {
  framework_->on_gradient_ready([&](int64_t first, int64_t count) { ready_.push_back({first, count, now()}); });
  for (int step = 0; step < 2; ++step) {
    const Nanoseconds begin = now();
    ready_.clear();
    framework_->begin_step(step);
    forward();
    EXPECT_EQ(now() - begin, milliseconds(48)) << "a third";
    EXPECT_THAT(ready_, IsEmpty());
    framework_->backward({});
    EXPECT_EQ(now() - begin, milliseconds(144));
    EXPECT_THAT(ready_,
                ElementsAre(Ready{48, 48, begin + milliseconds(48 + 48)}, Ready{16, 32, begin + milliseconds(48 + 80)},
                            Ready{0, 16, begin + milliseconds(48 + 96)}));
  }
}

TEST_F(Emulated, WhatTheHostDoesWithAGradientDelaysNoOther) {
  framework_->on_gradient_ready([&](int64_t first, int64_t count) {
    ready_.push_back({first, count, now()});
    if (first == 48) clock_.advance(milliseconds(10));
    if (first == 0) clock_.advance(milliseconds(5));
  });
  framework_->begin_step(0);
  forward();
  framework_->backward({});
  EXPECT_EQ(ready_[1].at, milliseconds(128));
  EXPECT_EQ(ready_[2].at, milliseconds(144));
  EXPECT_EQ(now(), milliseconds(149));
}

TEST_F(Emulated, MicroBatchesShareTheTimeOfAStep) {
  framework_->on_gradient_ready([&](int64_t first, int64_t count) { ready_.push_back({first, count, now()}); });
  framework_->begin_step(0);
  forward();
  framework_->backward({.last = false});
  EXPECT_THAT(ready_, IsEmpty());
  forward();
  framework_->backward({.accumulate = true});
  EXPECT_EQ(now(), milliseconds(144));
  EXPECT_EQ(ready_.size(), 3U);
}

TEST_F(Emulated, GradientsAreZerosAgainInEachStepAndNothingIsClaimed) {
  auto* gradients = static_cast<float*>(framework_->gradients().data);
  for (int step = 0; step < 2; ++step) {
    gradients[7] = 3;  // as an exchange leaves it
    framework_->begin_step(step);
    forward();
    framework_->backward({});
    EXPECT_EQ(gradients[7], 0);
  }
  EXPECT_TRUE(std::isnan(framework_->loss()));
  EXPECT_TRUE(std::isnan(framework_->metric_sums().loss));
  EXPECT_EQ(framework_->metric_sums().weight, 4);
  EXPECT_THAT([&] { framework_->outputs(); }, ThrowsMessage<UserError>("an emulated accelerator has no outputs"));
}

TEST_F(Emulated, ARankWithoutSamplesWaitsForNothing) {
  framework_->on_gradient_ready([&](int64_t first, int64_t count) { ready_.push_back({first, count, now()}); });
  framework_->begin_step(0);
  framework_->zero_gradients();
  EXPECT_THAT(ready_, ElementsAre(Ready{0, 96, milliseconds(0)}));
}

TEST(EmulatedOnTheSystemClock, AStepTakesAtLeastItsTime) {
  const SystemClock clock;
  const auto framework = emulate(std::make_unique<Weights>(), {.step = milliseconds(30), .clock = clock});
  framework->begin_step(0);
  const TimePoint begin = clock.now();
  framework->forward({}, Mode::kTrain);
  framework->backward({});
  EXPECT_GE(clock.now() - begin, milliseconds(30));
}

}  // namespace
}  // namespace mlbench::framework
