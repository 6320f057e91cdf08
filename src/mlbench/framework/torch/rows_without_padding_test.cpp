// Sentences of different lengths in framework torch: padding is not computed, and changes nothing.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mlbench/framework/contract_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/text_reference_test.h"
#include "mlbench/framework/token_batch_test.h"
#include "mlbench/framework/torch/torch_framework.h"

namespace mlbench::framework::torch_framework {
namespace {

using contract::step;

constexpr int64_t kWords = 37;

FrameworkOptions translation_options(const std::string& model) {
  spec::TaskSpec task;
  task.model = {model, {{"size", "tiny"}}};
  task.data.classes = kWords;
  task.loss = "token_cross_entropy";
  task.label_smoothing = 0.1;
  FrameworkOptions options;
  options.model = models::describe_model(task);
  options.threads = 2;
  return options;
}

// A batch of pairs with so many words in source and target.
TokenBatch batch_of(const std::vector<std::pair<int64_t, int64_t>>& words) {
  std::vector<SentencePair> pairs;
  for (size_t i = 0; i < words.size(); ++i) {
    pairs.push_back(sentence_pair(kWords, words[i].first, words[i].second, i + 1));
  }
  return translation_batch(pairs);
}

struct LengthsCase {
  std::string name, device;
  std::vector<std::pair<int64_t, int64_t>> words;
};

class RowsWithoutPadding : public ::testing::TestWithParam<std::tuple<const char*, LengthsCase>> {};

INSTANTIATE_TEST_SUITE_P(
    Batches, RowsWithoutPadding,
    ::testing::Combine(::testing::Values("gnmt", "transformer"),
                       ::testing::Values(LengthsCase{"different", "cpu", {{1, 17}, {23, 2}, {4, 4}, {11, 1}}},
                                         LengthsCase{"different", "mirror", {{1, 17}, {23, 2}, {4, 4}, {11, 1}}},
                                         LengthsCase{"equal", "cpu", {{6, 5}, {6, 5}, {6, 5}}},
                                         LengthsCase{"one", "cpu", {{7, 9}}})),
    [](const auto& info) {
      const LengthsCase& lengths = std::get<1>(info.param);
      return std::string(std::get<0>(info.param)) + "_" + lengths.name + "_" + lengths.device;
    });

// The reference draws masks for whole batches, with padding.
TEST_P(RowsWithoutPadding, LossAndGradientsAreThoseOfTheEquations) {
  FrameworkOptions options = translation_options(std::get<0>(GetParam()));
  options.device = std::get<1>(GetParam()).device;
  const auto framework = make(options);
  framework->initialise();
  EXPECT_EQ(framework->effective()["layout"], "rows without padding");
  const TokenBatch batch = batch_of(std::get<1>(GetParam()).words);
  const double loss = step(*framework, batch.view(), 3);
  const TextReference reference(options, *framework, batch, 3);
  EXPECT_NEAR(loss, reference.loss, 1e-5 * reference.loss);
  EXPECT_EQ(framework->metric_sums().weight, batch.weight);
  double squares = 0;
  for (const FlatRange& range : framework->layout().ranges) {
    squares += std::pow(reference.gradient(range.name).norm().item<double>(), 2);
  }
  const double rounding = 4 * std::numeric_limits<float>::epsilon() * std::sqrt(squares);
  for (const FlatRange& range : framework->layout().ranges) {
    const at::Tensor expected = reference.gradient(range.name).flatten();
    const at::Tensor found = flat_tensor(framework->gradients()).narrow(0, range.offset, range.count);
    EXPECT_LT((found.to(at::kDouble) - expected).norm().item<double>(),
              1e-5 * expected.norm().item<double>() + rounding)
        << range.name;
  }
}

TEST(RowsWithoutPaddingAtAll, PaddingIsNotRead) {
  for (const char* model : {"gnmt", "transformer"}) {
    SCOPED_TRACE(model);
    const auto framework = make(translation_options(model));
    framework->initialise();
    TokenBatch batch = batch_of({{1, 17}, {23, 2}, {4, 4}});
    const double loss = step(*framework, batch.view());
    const at::Tensor gradients = flat_tensor(framework->gradients()).clone();
    for (TokenBatch::Tensor& tensor : batch.tensors) {
      if (tensor.name != "source" && tensor.name != "target_in") continue;
      for (int64_t& id : tensor.values) id = id == 0 ? kWords + 1 : id;  // no token of the vocabulary
    }
    EXPECT_EQ(step(*framework, batch.view()), loss);
    EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), gradients));
  }
}

}  // namespace
}  // namespace mlbench::framework::torch_framework
