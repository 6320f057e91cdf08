// The full models of tasks 3a, 4a and 4b, built: what they hold, and what a checkpoint of one holds.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/base/shape.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"
#include "mlbench/train/snapshot.h"

namespace mlbench {
namespace {

struct FullModel {
  const char* task;
  int64_t parameters;
};

class FullModels : public testing::TestWithParam<FullModel> {
 protected:
  FullModels() {
    framework::FrameworkOptions options;
    options.model = model_;
    framework_ = framework::torch_framework::make(options);
  }

  const models::ModelDescription model_ = models::describe_model(spec::find_task(GetParam().task, "", "", {}).task);
  // One at a time: with its gradient the largest takes 1.7 GB.
  std::unique_ptr<framework::Framework> framework_;
};

INSTANTIATE_TEST_SUITE_P(Tasks, FullModels,
                         testing::Values(FullModel{"3a", 33'556'078}, FullModel{"4a", 160'671'297},
                                         FullModel{"4b", 210'808'832}),
                         [](const auto& one) { return std::string("task") + one.param.task; });

TEST_P(FullModels, HaveTheParametersOfTheirTask) {
  const models::FlatLayout& layout = framework_->layout();
  ASSERT_EQ(layout.ranges.size(), model_.parameters.size());
  int64_t count = 0, end = 0;
  for (size_t i = 0; i < layout.ranges.size(); ++i) {
    const models::FlatRange& range = layout.ranges[i];
    EXPECT_EQ(range.name, model_.parameters[i].name);
    EXPECT_EQ(range.count, volume_of(model_.parameters[i].shape)) << range.name;
    EXPECT_TRUE(range.trainable) << range.name;
    EXPECT_GE(range.offset, end) << range.name << " begins within the tensor before it";
    end = range.offset + range.count;
    count += range.count;
  }
  EXPECT_EQ(count, GetParam().parameters);
  EXPECT_GE(layout.parameter_elements, end);
  EXPECT_EQ(framework_->parameters().count, layout.parameter_elements);
  EXPECT_EQ(framework_->gradients().count, layout.parameter_elements);
}

class FullCheckpoint : public FullModels {};
INSTANTIATE_TEST_SUITE_P(Tasks, FullCheckpoint, testing::Values(FullModel{"3a", 33'556'078}),
                         [](const auto& one) { return std::string("task") + one.param.task; });

TEST_P(FullCheckpoint, HoldsEachParameterOnce) {
  const TemporaryFolder folder;
  NamedState state, own;
  const auto comms = comm::make_in_process_group(1, std::chrono::seconds(10));
  train::export_model(*framework_, train::average_model(*framework_, *comms.front(), true), state, own);
  checkpoint::write_safetensors(folder / "model.safetensors", state.tensors);
  state = {};
  int64_t elements = 0;
  const auto tensors = checkpoint::read_safetensors(folder / "model.safetensors");
  for (const auto& [name, tensor] : tensors) {
    elements += volume_of(tensor.shape);
    EXPECT_EQ(tensor.bytes.size(), static_cast<size_t>(volume_of(tensor.shape)) * sizeof(float)) << name;
  }
  EXPECT_EQ(tensors.size(), model_.parameters.size());
  EXPECT_EQ(elements, GetParam().parameters);
}

}  // namespace
}  // namespace mlbench
