#include "mlbench/train/evaluation_plan.h"

#include <gtest/gtest.h>

#include <memory>
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

std::unique_ptr<data::BatchPlan> batches_of(int64_t samples, int64_t global_batch) {
  return data::make_sample_plan(samples, {.batch_size = global_batch});
}

TEST(EvaluationPlan, every_epoch_end) {
  spec::EvaluationSpec spec;
  const auto batches = batches_of(1000, 300);  // 4 steps an epoch, the last with 100 samples
  EXPECT_EQ(due_steps({spec, *batches}, 12), (std::vector<int64_t>{4, 8, 12}));
}

TEST(EvaluationPlan, every_15000_samples_of_fashion_mnist) {
  spec::EvaluationSpec spec;
  spec.every_epoch = false;
  spec.every_samples = 15000;
  const auto due_with = [&](int64_t global_batch, int64_t steps) {
    const auto batches = batches_of(60000, global_batch);
    return due_steps({spec, *batches}, steps);
  };
  EXPECT_EQ(due_with(100, 600), (std::vector<int64_t>{150, 300, 450, 600}));
  EXPECT_EQ(due_with(200, 600), (std::vector<int64_t>{75, 150, 225, 300, 375, 450, 525, 600}));
  // 1,600 does not divide 15,000: evaluations are due at the first step that passes a multiple.
  EXPECT_EQ(due_with(1600, 38), (std::vector<int64_t>{10, 19, 29, 38}));
}

TEST(EvaluationPlan, thirty_percent_of_an_epoch_and_its_end) {
  spec::EvaluationSpec spec;
  spec.every_epoch = false;
  spec.every_fraction = 0.3;
  EXPECT_EQ(due_steps({spec, *batches_of(1000, 100)}, 20), (std::vector<int64_t>{3, 6, 9, 10, 13, 16, 19, 20}));
}

TEST(EvaluationPlan, epochs_of_drawn_lengths_end_where_they_end) {
  spec::EvaluationSpec spec;
  spec.every_fraction = 0.5;
  const auto batches = data::make_column_plan(2000, {.bptt = 20, .deviation = 5}, {.batch_size = 2, .seed = 3});
  std::vector<int64_t> expected;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    expected.push_back(batches->first_step(epoch) + (batches->steps_in(epoch) + 1) / 2);
    expected.push_back(batches->first_step(epoch + 1));
  }
  EXPECT_NE(batches->steps_in(0), batches->steps_in(1)) << "else choose another seed";
  EXPECT_EQ(due_steps({spec, *batches}, batches->first_step(4)), expected);
}

}  // namespace
}  // namespace mlbench::train
