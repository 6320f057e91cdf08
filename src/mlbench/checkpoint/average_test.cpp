#include "mlbench/checkpoint/average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/checkpoint/checkpoint.h"

namespace mlbench::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const FlatLayout kLayout{
    .ranges = {{"w", {2}, 0, 2, true}, {"mean", {1}, 0, 1, false}}, .parameter_elements = 16, .buffer_elements = 16};

HostTensor floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::kFloat32, {static_cast<int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

std::vector<float> values_of(const HostTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

class AverageOfCheckpoints : public testing::Test {
 protected:
  std::filesystem::path write(int64_t step, const std::vector<float>& w, float mean, const std::string& task = "t") {
    NamedState state;
    state.tensors["w"] = floats(w);
    state.tensors["mean"] = floats({mean});
    state.tensors["optimizer/momentum/w"] = floats({7, 7});
    state.scalars["train/step"] = step;
    state.scalars["train/task_hash"] = task;
    return write_checkpoint(folder_.path(), step, state);
  }

  const TemporaryFolder folder_;
};

TEST_F(AverageOfCheckpoints, IsTheMeanOfTheLastOnes) {
  write(1, {100, 100}, 100);
  write(2, {1, -4}, 0);
  const auto third = write(30, {2, 0.5}, 3);
  const auto last = write(400, {6, 0.5}, 6);
  const AveragedCheckpoints averaged = read_average(last, 3, kLayout);
  EXPECT_THAT(averaged.steps, ElementsAre(2, 30, 400));
  EXPECT_THAT(values_of(averaged.state.tensor("w")), ElementsAre(3, -1));
  EXPECT_THAT(values_of(averaged.state.tensor("mean")), ElementsAre(3));
  EXPECT_EQ(averaged.state.tensors.size(), 2U) << "the model alone";
  EXPECT_EQ(averaged.state.integer("train/step"), 400);
  EXPECT_THAT(values_of(read_average(third, 2, kLayout).state.tensor("w")), ElementsAre(1.5F, -1.75F));
}

TEST_F(AverageOfCheckpoints, OfOneIsItself) {
  const auto only = write(5, {0.1F, 1e-30F}, 0.3F);
  EXPECT_THAT(values_of(read_average(only, 1, kLayout).state.tensor("w")), ElementsAre(0.1F, 1e-30F));
}

TEST_F(AverageOfCheckpoints, SaysWhatIsMissing) {
  write(1, {1, 1}, 1);
  const auto last = write(2, {1, 1}, 1);
  EXPECT_THAT([&] { read_average(last, 3, kLayout); },
              ThrowsMessage<UserError>(testing::AllOf(HasSubstr("3 checkpoints are to be averaged"),
                                                      HasSubstr("there are 2: of steps 1, 2"))));
  EXPECT_THAT([&] { read_average(folder_.path() / "moved", 1, kLayout); },
              ThrowsMessage<UserError>(HasSubstr("is not among the checkpoints of its folder")));
  FlatLayout other = kLayout;
  other.ranges[0].shape = {1, 2};
  EXPECT_THAT([&] { read_average(last, 2, other); },
              ThrowsMessage<UserError>(HasSubstr("tensor 'w' is float32 of shape [2]; the model's is")));
  other.ranges[0].name = "v";
  EXPECT_THAT([&] { read_average(last, 2, other); }, ThrowsMessage<UserError>(HasSubstr("v")));
  const auto stranger = write(3, {1, 1}, 1, "another");
  EXPECT_THAT([&] { read_average(stranger, 2, kLayout); }, ThrowsMessage<UserError>(HasSubstr("of another task")));
}

}  // namespace
}  // namespace mlbench::checkpoint
