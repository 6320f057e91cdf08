#include "mlbench/train/evaluation_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace mlbench::train {
namespace {

std::vector<int64_t> due_steps(const EvaluationPlan& plan, int64_t steps) {
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= steps; ++step) {
    if (plan.due(step)) due.push_back(step);
  }
  return due;
}

TEST(EvaluationPlan, every_epoch_end) {
  spec::EvaluationSpec spec;
  const EvaluationPlan plan(spec, 1000, 300);  // 4 steps an epoch, the last with 100 samples
  EXPECT_EQ(plan.steps_per_epoch(), 4);
  EXPECT_EQ(due_steps(plan, 12), (std::vector<int64_t>{4, 8, 12}));
}

TEST(EvaluationPlan, samples_count_the_short_last_batch) {
  const EvaluationPlan plan(spec::EvaluationSpec{}, 1000, 300);
  EXPECT_EQ(plan.samples_after(0), 0);
  EXPECT_EQ(plan.samples_after(3), 900);
  EXPECT_EQ(plan.samples_after(4), 1000);
  EXPECT_EQ(plan.samples_after(5), 1300);
}

TEST(EvaluationPlan, every_15000_samples_of_fashion_mnist) {
  spec::EvaluationSpec spec;
  spec.every_epoch = false;
  spec.every_samples = 15000;
  EXPECT_EQ(due_steps(EvaluationPlan(spec, 60000, 100), 600), (std::vector<int64_t>{150, 300, 450, 600}));
  EXPECT_EQ(due_steps(EvaluationPlan(spec, 60000, 200), 600),
            (std::vector<int64_t>{75, 150, 225, 300, 375, 450, 525, 600}));
  // 1,600 does not divide 15,000: at the first step that passes it.
  EXPECT_EQ(due_steps(EvaluationPlan(spec, 60000, 1600), 38), (std::vector<int64_t>{10, 19, 29, 38}));
}

TEST(EvaluationPlan, thirty_percent_of_an_epoch_and_its_end) {
  spec::EvaluationSpec spec;
  spec.every_epoch = false;
  spec.every_fraction = 0.3;
  EXPECT_EQ(due_steps(EvaluationPlan(spec, 1000, 100), 20), (std::vector<int64_t>{3, 6, 9, 10, 13, 16, 19, 20}));
}

}  // namespace
}  // namespace mlbench::train
