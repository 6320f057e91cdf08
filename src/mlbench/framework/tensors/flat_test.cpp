#include "mlbench/framework/tensors/flat.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/models/chain.h"

namespace mlbench::framework {
namespace {

// One value per parameter: a convolution, a norm, and a dense layer with a bias.
models::ModelDescription penalised_model(double l1, double l2) {
  models::ModelDescription model =
      models::Chain({1, 1, 1}).conv2d_normal("conv", 1, 1, 1).batch_norm2d("bn").flatten().linear("fc", 1).finish();
  model.l1 = l1;
  model.l2 = l2;
  return model;
}

at::Tensor flat_values(const models::ModelDescription& model, const std::map<std::string, float>& values) {
  const FlatLayout layout = models::lay_out(model);
  at::Tensor flat = at::zeros({layout.parameter_elements});
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable) flat[range.offset] = values.at(range.name);
  }
  return flat;
}

const std::map<std::string, float> kParameters = {
    {"conv.weight", 3.0F}, {"bn.weight", 5.0F}, {"bn.bias", 7.0F}, {"fc.weight", -2.0F}, {"fc.bias", 1.0F}};

TEST(Penalties, AreOfWeightsAndBiasesButNotOfNorms) {
  const models::ModelDescription model = penalised_model(0, 0.5);
  EXPECT_DOUBLE_EQ(Penalties(model).of(flat_values(model, kParameters)), 0.25 * (9 + 4 + 1));
  const models::ModelDescription both = penalised_model(0.125, 0.5);
  EXPECT_DOUBLE_EQ(Penalties(both).of(flat_values(both, kParameters)), 3.5 + 0.125 * (3 + 2 + 1));
}

TEST(Penalties, BeginGradientsWithTheirPart) {
  const models::ModelDescription model = penalised_model(0.25, 0.5);
  const at::Tensor parameters = flat_values(model, kParameters);
  at::Tensor gradients = at::full_like(parameters, 9);
  // Half of l2 w + l1 sign(w), and zero for the norm whatever stood there.
  const std::map<std::string, float> half = {
      {"conv.weight", 0.875F}, {"bn.weight", 0.0F}, {"bn.bias", 0.0F}, {"fc.weight", -0.625F}, {"fc.bias", 0.375F}};
  EXPECT_TRUE(Penalties(model).begin_gradients(parameters, gradients, {.scale = 0.5}));
  EXPECT_TRUE(at::equal(gradients, flat_values(model, half))) << gradients;
  EXPECT_TRUE(Penalties(model).begin_gradients(parameters, gradients, {.scale = 0.5, .accumulate = true}));
  EXPECT_TRUE(at::equal(gradients, flat_values(model, half) * 2)) << gradients;
}

TEST(Penalties, LeaveTheGradientsToTheModelWhereThereAreNone) {
  const models::ModelDescription model = penalised_model(0, 0);
  const at::Tensor parameters = flat_values(model, kParameters);
  at::Tensor gradients = at::full_like(parameters, 9);
  EXPECT_EQ(Penalties(model).of(parameters), 0);
  EXPECT_FALSE(Penalties(model).begin_gradients(parameters, gradients, {}));
  EXPECT_TRUE(Penalties(model).begin_gradients(parameters, gradients, {.accumulate = true}));
  EXPECT_TRUE(at::equal(gradients, at::full_like(parameters, 9))) << gradients;
}

// The operations of LibTorch that this thread calls in `action`, with those that they call.
thread_local std::vector<std::string> called_operations;
std::vector<std::string> operations_of(const std::function<void()>& action) {
  called_operations.clear();
  const auto observe = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
    called_operations.emplace_back(call.name());
    return nullptr;
  };
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(observe).scopes({at::RecordScope::FUNCTION}));
  action();
  at::removeCallback(handle);
  return called_operations;
}

// A step of a small model is short beside an operation of LibTorch: about 5,000 instructions for a slice.
TEST(Penalties, OfAWholeModelSliceNothing) {
  models::ModelDescription model = models::Chain({1, 1, 1}).flatten().linear("fc", 1).finish();
  model.l2 = 0.5;
  const Penalties penalties(model);
  const at::Tensor parameters = flat_values(model, kParameters);
  at::Tensor gradients = at::full_like(parameters, 9);
  double penalty = 0;
  EXPECT_THAT(operations_of([&] { penalty = penalties.of(parameters); }),
              testing::AllOf(testing::Contains("aten::dot"), testing::Not(testing::Contains("aten::slice"))));
  EXPECT_DOUBLE_EQ(penalty, 0.25 * (4 + 1));
  EXPECT_THAT(operations_of([&] { penalties.begin_gradients(parameters, gradients, {.scale = 0.5}); }),
              testing::IsEmpty());
  EXPECT_TRUE(at::equal(gradients, parameters * 0.25)) << gradients;
}

}  // namespace
}  // namespace mlbench::framework
