#include "mlbench/framework/null/null_framework.h"

#include <gtest/gtest.h>

#include "mlbench/framework/tensors/flat.h"
#include "mlbench/models/chain.h"

namespace mlbench::framework::null_framework {
namespace {

TEST(NullFramework, HasTheModelsParametersAndComputesNothing) {
  FrameworkOptions options;
  options.model = models::Chain({6}).linear("fc", 3).finish();
  const auto framework = make(options);
  framework->initialise();
  std::vector<float> expected(18);
  models::initialise(options.model.parameters[0], 0, options.seed, expected);
  EXPECT_TRUE(at::equal(flat_tensor(framework->parameters()).narrow(0, 0, 18), at::tensor(expected)));

  int64_t ready = 0;
  framework->on_gradient_ready([&](int64_t first, int64_t count) {
    EXPECT_EQ(first, 0);
    ready += count;
  });
  BatchView batch;
  batch.samples = batch.weight = 4;
  framework->begin_step(0);
  framework->forward(batch, Mode::kTrain);
  EXPECT_EQ(framework->loss(), 0);
  EXPECT_EQ(framework->metric_sums().weight, 4);
  framework->backward({.last = false});
  EXPECT_EQ(ready, 0);
  framework->backward({.accumulate = true});
  EXPECT_EQ(ready, framework->layout().parameter_elements);
  EXPECT_EQ(framework->outputs().size(), 12U);
  EXPECT_EQ(flat_tensor(framework->gradients()).abs().sum().item<float>(), 0);
  EXPECT_EQ(framework->effective()["name"], "null");
}

}  // namespace
}  // namespace mlbench::framework::null_framework
