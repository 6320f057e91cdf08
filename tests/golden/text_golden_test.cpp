// One training pass of the models over tokens against PyTorch (text_oracle.py, run at test time): loss and gradients,
// from one stored start, on batches with padding. The rule of comparison is that of golden_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/native/native_framework.h"
#include "mlbench/framework/token_batch_test.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

using golden::Values;

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr int64_t kVocabulary = 101;
// Rounding grows from layer to layer and position to position, for PyTorch alike.
constexpr double kTextMultiple = 16;

struct TextCase {
  framework::FrameworkOptions options;
  framework::TokenBatch batch;
  int64_t heads = 1;
};

TextCase text_case(const std::string& model) {
  spec::TaskSpec task;
  task.model = {model, {{"size", "tiny"}}};
  task.data.classes = kVocabulary;
  task.loss = "token_cross_entropy";
  task.label_smoothing = model == "awd-lstm" ? 0 : 0.1;
  TextCase result;
  result.options.model = models::describe_model(task);
  result.options.dropout = false;
  result.options.threads = 2;
  for (const models::LayerSpec& layer : result.options.model.layers) {
    if (layer.kind == "multi_head_attention") result.heads = layer.options.at("heads").get<int64_t>();
  }
  if (model == "awd-lstm") {
    result.batch = framework::language_batch(kVocabulary, 12, 5);
  } else {
    std::vector<framework::SentencePair> pairs;
    for (int64_t i = 0; i < 6; ++i) {
      pairs.push_back(framework::sentence_pair(kVocabulary, 3 + 5 * i % 11, 2 + 7 * i % 13, static_cast<uint64_t>(i)));
    }
    result.batch = framework::translation_batch(pairs);
  }
  return result;
}

struct TextOutcome {
  double loss = 0;
  Values gradients;
};

std::map<std::string, TextOutcome> ask_pytorch_about(const TextCase& test) {
  const TemporaryFolder folder;
  Json json = {{"model", test.options.model.name},
               {"label_smoothing", test.options.model.loss.label_smoothing},
               {"heads", test.heads},
               {"parameters", Json::array()},
               {"tensors", Json::array()}};
  std::vector<float> start;
  for (size_t i = 0; i < test.options.model.parameters.size(); ++i) {
    const models::ParameterSpec& parameter = test.options.model.parameters[i];
    json["parameters"].push_back({{"name", parameter.name}, {"shape", parameter.shape}});
    const auto count = static_cast<size_t>(volume_of(parameter.shape));
    start.resize(start.size() + count);
    models::initialise(parameter, i, test.options.seed, std::span(start).last(count));
  }
  for (const framework::TokenBatch::Tensor& tensor : test.batch.tensors) {
    json["tensors"].push_back({{"name", tensor.name}, {"shape", tensor.shape}});
    golden::write_values(folder / (tensor.name + ".bin"), tensor.values);
  }
  write_json_file(folder / "case.json", json);
  golden::write_values(folder / "start.bin", start);
  golden::run_oracle("text_oracle.py", folder);
  const Json result = read_json_file(folder / "result.json");
  std::map<std::string, TextOutcome> outcomes;
  for (const char* precision : {"float64", "float32"}) {
    outcomes[precision] = {result["loss"][precision].get<double>(),
                           golden::read_values(folder / ("gradients_" + std::string(precision) + ".bin"))};
  }
  return outcomes;
}

struct FrameworkUnderTest {
  const char* name;
  Availability (*available)();
  std::unique_ptr<framework::Framework> (*make)(const framework::FrameworkOptions& options);
};
constexpr FrameworkUnderTest kFrameworks[] = {
    {"torch", framework::torch_framework::available, framework::torch_framework::make},
    {"native", framework::native_framework::available, framework::native_framework::make},
};

TextOutcome our_pass(const FrameworkUnderTest& tested, const TextCase& test) {
  const auto framework = tested.make(test.options);
  framework->initialise();
  framework->begin_step(0);
  framework->forward(test.batch.view(), framework::Mode::kTrain);
  TextOutcome outcome;
  outcome.loss = framework->loss();
  framework->backward({});
  for (const FlatRange& range : framework->layout().ranges) {
    const float* first = static_cast<const float*>(framework->gradients().data) + range.offset;
    outcome.gradients.insert(outcome.gradients.end(), first, first + range.count);
  }
  return outcome;
}

using TextGoldenCase = std::tuple<FrameworkUnderTest, const char*>;
class TextGoldenTest : public golden::OracleTest, public ::testing::WithParamInterface<TextGoldenCase> {};

INSTANTIATE_TEST_SUITE_P(Models, TextGoldenTest,
                         ::testing::Combine(::testing::ValuesIn(kFrameworks),
                                            ::testing::Values("awd-lstm", "gnmt", "transformer")),
                         [](const auto& one) {
                           const std::string model = std::get<1>(one.param);
                           return std::get<0>(one.param).name + ("_" + (model == "awd-lstm" ? "awd_lstm" : model));
                         });

TEST_P(TextGoldenTest, LossAndGradientsEqualPyTorchs) {
  const auto& [tested, model] = GetParam();
  if (!tested.available().available) GTEST_SKIP() << "missing capability: " << tested.available().reason;
  const TextCase test = text_case(model);
  auto golden = ask_pytorch_about(test);
  const TextOutcome &exact = golden["float64"], &peer = golden["float32"], ours = our_pass(tested, test);
  EXPECT_LE(std::abs(ours.loss - exact.loss),
            std::max(2 * std::abs(peer.loss - exact.loss), 8 * kEpsilon * exact.loss));
  ASSERT_EQ(ours.gradients.size(), exact.gradients.size());
  struct Norms {
    double ours = 0, peer = 0, exact = 0;  // sums of squares
  };
  std::map<std::string, Norms> groups;
  double squares = 0;
  size_t offset = 0;
  for (const models::ParameterSpec& parameter : test.options.model.parameters) {
    const auto count = static_cast<size_t>(volume_of(parameter.shape));
    Norms& norms = groups[count < 64 ? "tensors under 64 elements" : parameter.name];
    for (const size_t end = offset + count; offset < end; ++offset) {
      norms.ours += std::pow(ours.gradients[offset] - exact.gradients[offset], 2);
      norms.peer += std::pow(peer.gradients[offset] - exact.gradients[offset], 2);
      norms.exact += std::pow(exact.gradients[offset], 2);
      squares += std::pow(exact.gradients[offset], 2);
    }
  }
  // What cancels (the gradient of attention's query does, as its weights sum to 1) has the rounding of its summands.
  const double rounding = kEpsilon * std::sqrt(squares);
  for (const auto& [name, norms] : groups) {
    const double error = std::sqrt(norms.ours), peer_error = std::sqrt(norms.peer), norm = std::sqrt(norms.exact);
    EXPECT_LE(error, std::max({2 * peer_error, kTextMultiple * kEpsilon * norm, rounding}))
        << name << ": PyTorch's own error is " << peer_error << ", norm " << norm;
  }
}

}  // namespace
}  // namespace mlbench
