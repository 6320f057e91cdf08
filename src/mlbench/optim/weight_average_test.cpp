#include "mlbench/optim/weight_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"

namespace mlbench::optim {
namespace {

// Two tensors with padding between them.
const FlatLayout kAverageLayout{.ranges = {{"a", {2}, 0, 2, true}, {"b", {3}, 16, 3, true}}, .parameter_elements = 32};

at::Tensor weights_of(float value) {
  at::Tensor weights = at::zeros({32});
  for (const auto& [offset, count] : {std::pair{0, 2}, {16, 3}}) weights.narrow(0, offset, count).fill_(value);
  return weights;
}

// The average, taken out as an evaluation does.
float average_of(WeightAverage& average, at::Tensor& weights) {
  const float before = weights[17].item<float>();
  average.swap(weights);
  const float value = weights[17].item<float>();
  EXPECT_EQ(weights[0].item<float>(), value);
  EXPECT_EQ(weights[31].item<float>(), 0) << "padding";
  average.swap(weights);
  EXPECT_EQ(weights[17].item<float>(), before) << "training goes on with its weights";
  return value;
}

TEST(WeightAverage, BeginsAfterSoManyEvaluationsWithoutANewBest) {
  WeightAverage average(3, kAverageLayout);
  for (const double loss : {5.0, 4.0, 4.5, 4.0, 3.5, 3.6, 3.5}) average.on_evaluation(loss);  // an equal one is none
  EXPECT_FALSE(average.begun());
  average.on_evaluation(std::nan(""));
  EXPECT_TRUE(average.begun());
  average.on_evaluation(1);
  EXPECT_TRUE(average.begun()) << "for good";
}

TEST(WeightAverage, FourStepsComputedByHand) {
  WeightAverage average(1, kAverageLayout);
  at::Tensor weights = weights_of(7);
  average.add(weights);
  EXPECT_EQ(average_of(average, weights), 7) << "nothing is averaged yet";
  for (const double loss : {1.0, 2.0}) average.on_evaluation(loss);
  EXPECT_EQ(average_of(average, weights), 7) << "no step since";
  const std::pair<float, float> steps[] = {{1, 1}, {3, 3}, {5, 4}, {1, 3}};  // 3; (3 + 5) / 2; (3 + 5 + 1) / 3
  for (const auto& [value, expected] : steps) {
    weights = weights_of(value);
    average.add(weights);
    EXPECT_EQ(average_of(average, weights), expected) << value;
  }
}

TEST(WeightAverage, ResumesIdentically) {
  const auto run = [](WeightAverage& average, at::Tensor& weights, int first, int last) {
    for (int step = first; step < last; ++step) {
      weights += weights_of(0.1F * static_cast<float>(step % 5) - 0.15F);
      average.add(weights);
      if (step % 2 == 0) average.on_evaluation(step < 4 ? -step : 0);
    }
  };
  WeightAverage whole(2, kAverageLayout);
  at::Tensor expected = weights_of(1);
  run(whole, expected, 0, 20);
  const float expected_average = average_of(whole, expected);
  EXPECT_NE(expected_average, expected[17].item<float>());
  for (const int at : {0, 3, 5, 7, 8, 12}) {  // before the trigger, with it, and behind the first steps
    WeightAverage first(2, kAverageLayout), second(2, kAverageLayout);
    at::Tensor weights = weights_of(1);
    run(first, weights, 0, at);
    NamedState state;
    first.swap(weights);
    first.export_state(state);
    second.import_state(state);
    second.swap(weights);
    EXPECT_EQ(second.begun(), first.begun());
    run(second, weights, at, 20);
    EXPECT_TRUE(at::equal(weights, expected)) << at;
    EXPECT_EQ(average_of(second, weights), expected_average) << at;
  }
}

TEST(WeightAverage, IsStoredOnlyWhileItIsTheModel) {
  WeightAverage average(1, kAverageLayout);
  for (const double loss : {1.0, 2.0}) average.on_evaluation(loss);
  at::Tensor weights = weights_of(1);
  average.add(weights);
  NamedState state;
  EXPECT_THROW(average.export_state(state), InternalError);
  average.swap(weights);
  average.export_state(state);
  EXPECT_EQ(state.tensor("optimizer/weights/b").shape, (std::vector<int64_t>{3}));
  EXPECT_THROW(average.add(weights), InternalError);
  state.tensors.erase("optimizer/weights/b");
  EXPECT_THROW(average.import_state(state), UserError);
}

}  // namespace
}  // namespace mlbench::optim
