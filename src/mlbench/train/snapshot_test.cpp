#include "mlbench/train/snapshot.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/comm/test_group.h"
#include "mlbench/framework/null/null_framework.h"
#include "mlbench/models/chain.h"

namespace mlbench::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model of a layer with weight and bias, and a buffer like that of BatchNorm.
std::unique_ptr<framework::Framework> make_model() {
  framework::FrameworkOptions options;
  options.model = models::Chain({2}).linear("fc", 3).finish();
  options.model.parameters.push_back({"bn.running_mean", {3}, {}, false});
  return framework::null_framework::make(options);
}

HostTensor tensor_of(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::kFloat32, shape, {bytes.begin(), bytes.end()}};
}

std::map<std::string, HostTensor> stored() {
  return {{"fc.weight", tensor_of({3, 2}, {1, 2, 3, 4, 5, 6})},
          {"fc.bias", tensor_of({3}, {7, 8, 9})},
          {"bn.running_mean", tensor_of({3}, {0.5, 1.5, 2.5})},
          {"rank0/bn.running_mean", tensor_of({3}, {0, 1, 2})},
          {"sgd/momentum/fc.bias", tensor_of({3}, {1, 1, 1})}};
}

std::vector<float> values_of(framework::Framework& framework, const std::string& name) {
  for (const FlatRange& range : framework.layout().ranges) {
    if (range.name != name) continue;
    const BufferView flat = range.trainable ? framework.parameters() : framework.buffers();
    const float* first = static_cast<const float*>(flat.data) + range.offset;
    return {first, first + range.count};
  }
  return {};
}

std::string error_of(const std::map<std::string, HostTensor>& tensors) {
  try {
    import_averaged_model(tensors, *make_model());
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImportAveragedModel, TakesParametersAndTheAveragedBuffers) {
  const auto model = make_model();
  import_averaged_model(stored(), *model);
  EXPECT_THAT(values_of(*model, "fc.weight"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of(*model, "fc.bias"), ElementsAre(7, 8, 9));
  EXPECT_THAT(values_of(*model, "bn.running_mean"), ElementsAre(0.5, 1.5, 2.5));
}

TEST(ImportAveragedModel, ARankGoesOnWithItsOwnBuffers) {
  const auto model = make_model();
  NamedState state;
  state.tensors = stored();
  import_model(state, 0, *model);
  EXPECT_THAT(values_of(*model, "fc.bias"), ElementsAre(7, 8, 9));
  EXPECT_THAT(values_of(*model, "bn.running_mean"), ElementsAre(0, 1, 2));
}

TEST(ImportAveragedModel, SaysWhatIsMissingAndWhatIsThere) {
  auto tensors = stored();
  tensors["module.fc.bias"] = tensors["fc.bias"];
  tensors.erase("fc.bias");
  tensors.erase("bn.running_mean");
  EXPECT_EQ(error_of(tensors),
            "2 of the model's 3 tensors are not there: fc.bias, bn.running_mean; other tensors that are: "
            "module.fc.bias, rank0/bn.running_mean, sgd/momentum/fc.bias");
  EXPECT_EQ(error_of({}),
            "3 of the model's 3 tensors are not there: fc.weight, fc.bias, bn.running_mean; other tensors that are: "
            "none");
}

TEST(ImportAveragedModel, SaysWhichShapeOrTypeIsWrong) {
  auto tensors = stored();
  tensors["fc.weight"].shape = {2, 3};
  EXPECT_THAT(error_of(tensors),
              HasSubstr("tensor 'fc.weight' is float32 of shape [2, 3]; the model's is float32 of shape [3, 2]"));
  tensors = stored();
  tensors["fc.bias"].dtype = DType::kInt32;
  EXPECT_THAT(error_of(tensors),
              HasSubstr("tensor 'fc.bias' is int32 of shape [3]; the model's is float32 of shape [3]"));
}

// The values have sums and means that float32 holds, so that the order of additions does not matter.
TEST(AverageModel, IsTheExactMeanOfBuffersOnAllRanksAndLeavesTheirOwn) {
  for (const int size : {1, 2, 3, 4}) {
    const auto own_of = [](int rank) {
      return std::vector<float>{static_cast<float>(rank) * 1.5F, static_cast<float>(rank) * -3 + 0.25F, 7};
    };
    const auto rank_mean = static_cast<float>(size - 1) / 2;
    const std::vector<float> mean = {rank_mean * 1.5F, rank_mean * -3 + 0.25F, 7};
    comm::run_group(comm::make_in_process_group(size, std::chrono::seconds(20)), [&](comm::Communicator& comm) {
      const int rank = comm.rank();
      const auto model = make_model();
      NamedState state;
      state.tensors = stored();
      state.tensors["rank0/bn.running_mean"] = tensor_of({3}, own_of(rank));
      import_model(state, 0, *model);
      const AveragedModel averaged = average_model(*model, comm, true);
      EXPECT_TRUE(averaged.parameters.empty()) << "all have the same";
      ASSERT_EQ(static_cast<int64_t>(averaged.buffers.size()), model->layout().buffer_elements);
      EXPECT_EQ(std::vector<float>(averaged.buffers.begin(), averaged.buffers.begin() + 3), mean)
          << rank << " of " << size;
      EXPECT_EQ(values_of(*model, "bn.running_mean"), own_of(rank)) << rank << " of " << size;
      EXPECT_THAT(values_of(*model, "fc.bias"), ElementsAre(7, 8, 9));
    });
  }
}

TEST(AverageModel, IsTheMeanOfParametersWhereRanksDiffer) {
  std::vector<std::string> hashes(2);
  comm::run_group(comm::make_in_process_group(2, std::chrono::seconds(20)), [&](comm::Communicator& comm) {
    const int rank = comm.rank();
    const auto model = make_model();
    std::ranges::fill(framework::values_of(model->parameters()), static_cast<float>(3 * rank));
    const AveragedModel averaged = average_model(*model, comm, false);
    EXPECT_THAT(averaged.parameters, testing::Each(1.5F));
    EXPECT_THAT(values_of(*model, "fc.bias"), testing::Each(static_cast<float>(3 * rank)));
    NamedState state, own;
    export_model(*model, averaged, state, own);
    EXPECT_EQ(state.tensor("fc.bias").bytes, tensor_of({3}, {1.5, 1.5, 1.5}).bytes);
    const auto mine = static_cast<float>(3 * rank);
    EXPECT_EQ(own.tensor("fc.bias").bytes, tensor_of({3}, {mine, mine, mine}).bytes);
    hashes[static_cast<size_t>(rank)] = agreed_weights_sha256(*model, comm, false);
  });
  EXPECT_EQ(hashes[0].size(), 64U);
  EXPECT_EQ(hashes[0], hashes[1]);
  auto alone = std::move(comm::make_in_process_group(1, std::chrono::seconds(20)).front());
  const auto model = make_model();
  std::ranges::fill(framework::values_of(model->parameters()), 1.5F);
  EXPECT_EQ(agreed_weights_sha256(*model, *alone, true), hashes[0]);
}

TEST(ImportModel, ARankGoesOnWithItsOwnParametersWhereThereAreSome) {
  NamedState state;
  state.tensors = stored();
  state.tensors["rank1/bn.running_mean"] = tensor_of({3}, {7, 7, 7});
  state.tensors["rank1/fc.bias"] = tensor_of({3}, {-7, -8, -9});
  const auto model = make_model();
  import_model(state, 1, *model);
  EXPECT_THAT(values_of(*model, "fc.bias"), ElementsAre(-7, -8, -9));
  EXPECT_THAT(values_of(*model, "fc.weight"), ElementsAre(1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace mlbench::train
