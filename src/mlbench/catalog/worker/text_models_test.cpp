// Compares models over tokens, in each framework that computes, with their equations in float64.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/catalog/worker/every_framework_test.h"
#include "mlbench/framework/contract_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/text_reference_test.h"
#include "mlbench/framework/token_batch_test.h"
#include "mlbench/models/graph.h"

namespace mlbench::catalog {
namespace {

using framework::flat_tensor;
using framework::Framework;
using framework::FrameworkOptions;
using framework::language_batch;
using framework::MetricSums;
using framework::Mode;
using framework::sentence_pair;
using framework::SentencePair;
using framework::TextReference;
using framework::TokenBatch;
using framework::translation_batch;
using framework::contract::step;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kVocabulary = 37;

FrameworkOptions text_options(const std::string& model, double smoothing = 0.1, Json options = Json::object()) {
  spec::TaskSpec task;
  task.model = {model, std::move(options)};
  task.model.options["size"] = "tiny";
  task.data.classes = kVocabulary;
  task.loss = "token_cross_entropy";
  task.label_smoothing = smoothing;
  FrameworkOptions result;
  result.model = models::describe_model(task);
  result.threads = 2;
  return result;
}

TokenBatch batch_for(const std::string& model) {
  if (model == "awd-lstm") return language_batch(kVocabulary, 6, 4);
  return translation_batch(
      {sentence_pair(kVocabulary, 7, 5, 1), sentence_pair(kVocabulary, 2, 8, 2), sentence_pair(kVocabulary, 4, 1, 3)});
}

double relative_difference(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble).flatten();
  return ((value.to(at::kDouble).flatten() - exact).norm() / (exact.norm() + 1e-12)).item<double>();
}

at::Tensor gradient_of(Framework& framework, const FlatRange& range) {
  return flat_tensor(framework.gradients()).narrow(0, range.offset, range.count);
}

// The gradients of all tensors, without padding.
at::Tensor all_gradients(Framework& framework) {
  std::vector<at::Tensor> parts;
  for (const FlatRange& range : framework.layout().ranges) parts.push_back(gradient_of(framework, range).clone());
  return at::cat(parts).to(at::kCPU);
}

struct TextCase {
  const FrameworkRow* framework;
  std::string model;

  std::unique_ptr<Framework> started(const FrameworkOptions& options) const {
    auto made = framework->make(options);
    made->initialise();
    return made;
  }
};

// Every framework with every model whose layers it has. `decoding`: those with a decoder.
std::vector<TextCase> cases(const std::vector<std::string>& models, bool decoding = false) {
  std::vector<TextCase> all;
  for (const FrameworkRow& row : every_framework()) {
    if (row.name == std::string("null") || !row.available().available || (decoding && !row.decodes)) continue;
    for (const std::string& model : models) {
      if (has_layers_of(row, text_options(model.empty() ? "awd-lstm" : model).model)) all.push_back({&row, model});
    }
  }
  return all;
}

std::string name_of_case(const testing::TestParamInfo<TextCase>& one) {
  std::string name = one.param.framework->name + (one.param.model.empty() ? "" : "_" + one.param.model);
  std::ranges::replace(name, '-', '_');
  return name;
}

class TextModel : public ::testing::TestWithParam<TextCase> {
 protected:
  const std::string& model() const { return GetParam().model; }
  std::unique_ptr<Framework> started(const FrameworkOptions& options) const { return GetParam().started(options); }
};

INSTANTIATE_TEST_SUITE_P(Models, TextModel, ::testing::ValuesIn(cases({"awd-lstm", "gnmt", "transformer"})),
                         name_of_case);

// Tests that run once for each framework.
class TextFramework : public TextModel {};
INSTANTIATE_TEST_SUITE_P(Frameworks, TextFramework, ::testing::ValuesIn(cases({""})), name_of_case);

TEST_P(TextModel, LossSumsAndGradientsEqualFloat64PerTensor) {
  for (const bool dropout : {false, true}) {
    SCOPED_TRACE(dropout ? "with dropout" : "without dropout");
    FrameworkOptions options = text_options(model());
    options.dropout = dropout;
    options.rank = 2;
    const auto framework = started(options);
    const TokenBatch batch = batch_for(model());
    const double loss = step(*framework, batch.view(), 5);
    const TextReference reference(options, *framework, batch, 5);
    EXPECT_NEAR(loss, reference.loss, 2e-6 * reference.loss);
    const MetricSums sums = framework->metric_sums();
    EXPECT_EQ(sums.weight, batch.weight);
    EXPECT_NEAR(sums.nll, reference.nll, 2e-6 * reference.nll);
    double squares = 0;
    for (const FlatRange& range : framework->layout().ranges) {
      squares += std::pow(reference.gradient(range.name).norm().item<double>(), 2);
    }
    // Sums that cancel (as in the gradient of attention's query, since its weights sum to 1) have the rounding of their
    // summands.
    const double rounding = 4 * std::numeric_limits<float>::epsilon() * std::sqrt(squares);
    for (const FlatRange& range : framework->layout().ranges) {
      const at::Tensor expected = reference.gradient(range.name).flatten();
      const at::Tensor error = gradient_of(*framework, range).to(at::kDouble) - expected;
      EXPECT_LT(error.norm().item<double>(), 1e-5 * expected.norm().item<double>() + rounding)
          << range.name << ", norm " << expected.norm().item<double>() << " of " << std::sqrt(squares);
    }
  }
}

TEST_P(TextModel, EveryMicroBatchHasItsOwnMasks) {
  FrameworkOptions options = text_options(model());
  const auto framework = started(options);
  const TokenBatch batch = batch_for(model());
  framework->begin_step(3);
  std::vector<double> losses;
  for (int64_t number = 0; number < 3; ++number) {
    framework->forward(batch.view(), Mode::kTrain);
    losses.push_back(framework->loss());
    EXPECT_NEAR(losses.back(), TextReference(options, *framework, batch, 3, number).loss, 1e-5);
    framework->forward(batch.view(), Mode::kEvaluate);  // draws nothing
  }
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[1], losses[2]);
}

TEST_P(TextModel, SameStepSameBits) {
  const FrameworkOptions options = text_options(model());
  const TokenBatch batch = batch_for(model());
  const auto one = started(options), other = started(options);
  step(*one, batch.view(), 4);
  step(*other, batch.view(), 3);
  EXPECT_FALSE(at::equal(all_gradients(*one), all_gradients(*other)));
  step(*other, batch.view(), 4);
  EXPECT_TRUE(at::equal(all_gradients(*one), all_gradients(*other)));
}

TEST_P(TextModel, BackwardOverwritesAddsAndScales) {
  FrameworkOptions options = text_options(model());
  options.dropout = false;
  const auto framework = started(options);
  const TokenBatch batch = batch_for(model());
  flat_tensor(framework->gradients()).fill_(1e9F);  // must not shine through
  step(*framework, batch.view());
  const at::Tensor once = all_gradients(*framework);
  EXPECT_LT(once.abs().max().item<float>(), 100);
  step(*framework, batch.view(), 0, 0.5);
  EXPECT_LT(relative_difference(all_gradients(*framework), once * 0.5), 1e-6);
  step(*framework, batch.view(), 0, 2, true);
  EXPECT_LT(relative_difference(all_gradients(*framework), once * 2.5), 1e-6);
}

// This holds for tied parameters, too: they are told with the last contribution.
TEST_P(TextModel, TellsEachGradientOnceAndWhenItIsFinal) {
  const auto framework = started(text_options(model()));
  const TokenBatch batch = batch_for(model());
  std::set<int64_t> told;
  at::Tensor when_told = at::zeros_like(flat_tensor(framework->gradients()));
  framework->on_gradient_ready([&](int64_t first, int64_t count) {
    EXPECT_TRUE(told.insert(first).second);
    when_told.narrow(0, first, count).copy_(flat_tensor(framework->gradients()).narrow(0, first, count));
  });
  framework->begin_step(0);
  framework->forward(batch.view(), Mode::kTrain);
  framework->backward({.last = false});
  EXPECT_TRUE(told.empty()) << "gradients of a micro-batch that is not the last are not final";
  framework->forward(batch.view(), Mode::kTrain);
  framework->backward({.accumulate = true});
  EXPECT_EQ(told.size(), framework->layout().ranges.size());
  for (const FlatRange& range : framework->layout().ranges) {
    EXPECT_TRUE(at::equal(when_told.narrow(0, range.offset, range.count), gradient_of(*framework, range)))
        << range.name;
  }
}

TEST_P(TextModel, TwoMicroBatchesEqualOneBatch) {
  FrameworkOptions options = text_options(
      model(), 0.1,
      model() == "awd-lstm" ? Json{{"activation_regularisation", 0}, {"temporal_regularisation", 0}} : Json::object());
  options.dropout = false;
  const auto framework = started(options);
  std::vector<TokenBatch> parts;
  TokenBatch whole;
  if (model() == "awd-lstm") {
    whole = language_batch(kVocabulary, 6, 4);
    for (const int64_t first : {0, 2}) {
      TokenBatch part = language_batch(kVocabulary, 6, 2);
      for (size_t tensor = 0; tensor < 2; ++tensor) {
        const at::Tensor all = at::tensor(whole.tensors[tensor].values).view({6, 4}).narrow(1, first, 2).contiguous();
        part.tensors[tensor].values.assign(all.data_ptr<int64_t>(), all.data_ptr<int64_t>() + 12);
      }
      parts.push_back(part);
    }
  } else {
    const std::vector<SentencePair> pairs = {sentence_pair(kVocabulary, 7, 5, 1), sentence_pair(kVocabulary, 2, 8, 2),
                                             sentence_pair(kVocabulary, 4, 1, 3)};
    whole = translation_batch(pairs);
    parts = {translation_batch({pairs[0]}), translation_batch({pairs[1], pairs[2]})};
  }
  step(*framework, whole.view());
  const at::Tensor expected = all_gradients(*framework);
  const MetricSums sums = framework->metric_sums();
  framework->begin_step(0);
  MetricSums added;
  for (const TokenBatch& part : parts) {
    framework->forward(part.view(), Mode::kTrain);
    const MetricSums one = framework->metric_sums();
    added.loss += one.loss;
    added.nll += one.nll;
    added.weight += one.weight;
    const bool last = &part == &parts.back();
    framework->backward({.scale = static_cast<double>(part.weight) / static_cast<double>(whole.weight),
                         .accumulate = &part != &parts.front(),
                         .last = last});
  }
  EXPECT_EQ(added.weight, sums.weight);
  EXPECT_NEAR(added.loss, sums.loss, 1e-5 * sums.loss);
  EXPECT_NEAR(added.nll, sums.nll, 1e-5 * sums.nll);
  EXPECT_LT(relative_difference(all_gradients(*framework), expected), 2e-6);
}

// The content of the padding changes nothing.
TEST_P(TextFramework, PaddingDoesNotLeak) {
  for (const char* model : {"gnmt", "transformer"}) {
    SCOPED_TRACE(model);
    FrameworkOptions options = text_options(model);
    if (!has_layers_of(*GetParam().framework, options.model)) continue;
    options.dropout = false;
    const auto framework = started(options);
    TokenBatch batch = batch_for(model);
    const double loss = step(*framework, batch.view());
    const at::Tensor gradients = all_gradients(*framework);
    for (TokenBatch::Tensor& tensor : batch.tensors) {
      if (tensor.name != "source" && tensor.name != "target_in") continue;
      for (int64_t& id : tensor.values) id = id == 0 ? 9 : id;
    }
    EXPECT_NEAR(step(*framework, batch.view()), loss, 1e-6 * loss);
    EXPECT_LT(relative_difference(all_gradients(*framework), gradients), 1e-6);
  }
}

TEST_P(TextFramework, CarriedStateEqualsOneLongSequence) {
  FrameworkOptions options = text_options("awd-lstm", 0);
  options.dropout = false;
  const auto framework = started(options);
  const auto nll_of = [&](int64_t first, int64_t positions, bool continues, Mode mode) {
    TokenBatch batch = language_batch(kVocabulary, positions, 4, first);
    batch.continues = continues;
    framework->forward(batch.view(), mode);
    return framework->metric_sums().nll;
  };
  for (const Mode mode : {Mode::kEvaluate, Mode::kTrain}) {
    const double whole = nll_of(0, 12, false, mode);
    const double first = nll_of(0, 5, false, mode), second = nll_of(5, 7, true, mode);
    EXPECT_NEAR(first + second, whole, 1e-5 * whole);
    EXPECT_GT(std::abs(nll_of(5, 7, false, mode) - second), 1e-6) << "without the state";
  }
  // An evaluation in between has a state of its own.
  nll_of(0, 5, false, Mode::kTrain);
  const double expected = nll_of(5, 7, true, Mode::kTrain);
  nll_of(0, 5, false, Mode::kTrain);
  nll_of(20, 9, false, Mode::kEvaluate);
  EXPECT_EQ(nll_of(5, 7, true, Mode::kTrain), expected);
  // The state is the same after a checkpoint.
  nll_of(0, 5, false, Mode::kTrain);
  const std::vector<float> state = framework->carried_state();
  EXPECT_EQ(state.size(), static_cast<size_t>(2 * 4 * (20 + 13)));
  nll_of(20, 9, false, Mode::kTrain);
  framework->set_carried_state(state, 4);
  EXPECT_EQ(nll_of(5, 7, true, Mode::kTrain), expected);
}

// ---- own gradients

TEST_P(TextModel, FiniteDifferencesAgree) {
  FrameworkOptions options = text_options(model());
  const auto framework = started(options);
  const TokenBatch batch = batch_for(model());
  const auto loss_at = [&] {
    framework->begin_step(1);
    framework->forward(batch.view(), Mode::kTrain);
    return framework->loss();
  };
  step(*framework, batch.view(), 1);
  const at::Tensor gradients = flat_tensor(framework->gradients()).clone();
  // The loss changes along the gradient of each tensor, whose norm is the slope.
  for (const FlatRange& range : framework->layout().ranges) {
    const at::Tensor direction = gradients.narrow(0, range.offset, range.count);
    const double norm = direction.norm().item<double>();
    if (norm < 1e-3) continue;  // below what float32 losses tell apart
    const at::Tensor values = flat_tensor(framework->parameters()).narrow(0, range.offset, range.count);
    const at::Tensor before = values.clone();
    constexpr double kStepSize = 5e-4;  // a ReLU of the transformer has its kink within 2e-3
    values.copy_(before + direction * (kStepSize / norm));
    const double above = loss_at();
    values.copy_(before - direction * (kStepSize / norm));
    const double below = loss_at();
    values.copy_(before);
    EXPECT_NEAR((above - below) / (2 * kStepSize), norm, 0.02 * norm + 1e-3) << range.name;
  }
}

// ---- decoding

class Decoding : public TextModel {
 protected:
  void SetUp() override {
    framework_ = started(text_options(model()));
    batch_ = batch_for(model());
    // Log probabilities of every position, by the equations.
    FrameworkOptions still = text_options(model());
    still.dropout = false;
    reference_ = std::make_unique<TextReference>(still, *framework_, batch_);
  }
  int64_t token(size_t sentence, int64_t position) const {
    const TokenBatch::Tensor& in = batch_.tensors[1];
    return in.values[sentence * static_cast<size_t>(in.shape[1]) + static_cast<size_t>(position)];
  }
  std::unique_ptr<Framework> framework_;
  TokenBatch batch_;
  std::unique_ptr<TextReference> reference_;
};

INSTANTIATE_TEST_SUITE_P(Models, Decoding, ::testing::ValuesIn(cases({"gnmt", "transformer"}, true)), name_of_case);

void expect_row(std::span<const float> all, size_t row, const at::Tensor& expected) {
  for (int64_t i = 0; i < kVocabulary; ++i) {
    EXPECT_NEAR(all[row * kVocabulary + static_cast<size_t>(i)], expected[i].item<double>(), 2e-5) << row << " " << i;
  }
}

TEST_P(Decoding, StepByStepEqualsTheForwardPass) {
  const auto decoder = framework_->make_decoder();
  constexpr size_t kRows = 2;
  decoder->start(batch_.view(), kRows);
  for (int64_t t = 0; t < batch_.tensors[1].shape[1]; ++t) {
    std::vector<int64_t> tokens;
    for (size_t row = 0; row < 3 * kRows; ++row) tokens.push_back(token(row / kRows, t));
    const std::span<const float> found = decoder->step(tokens);
    ASSERT_EQ(found.size(), 3 * kRows * kVocabulary);
    for (size_t row = 0; row < 3 * kRows; ++row) {
      const at::Tensor& expected = reference_->log_probs[row / kRows];
      if (t < expected.size(0)) expect_row(found, row, expected[t]);
    }
    if (model() == "transformer") {
      EXPECT_TRUE(decoder->attention().empty());
      continue;
    }
    const std::span<const float> attention = decoder->attention();
    const auto sources = static_cast<size_t>(batch_.tensors[0].shape[1]);
    ASSERT_EQ(attention.size(), 3 * kRows * sources);
    for (size_t row = 0; row < 3 * kRows; ++row) {
      const auto weights = attention.subspan(row * sources, sources);
      EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-5);
      const auto length = static_cast<size_t>(batch_.tensors[3].values[row / kRows]);
      for (size_t s = length; s < sources; ++s) EXPECT_EQ(weights[s], 0);
    }
  }
}

// Rows and sentences change places, and some are dropped: each row continues as if it had always been in its place.
TEST_P(Decoding, ReorderPermutesTheRows) {
  const auto decoder = framework_->make_decoder();
  decoder->start(batch_.view(), 2);
  decoder->step(std::vector<int64_t>{2, 2, 2, 2, 2, 2});
  // In each sentence the second row takes a wrong word.
  decoder->step(std::vector<int64_t>{token(0, 1), 7, token(1, 1), 7, token(2, 1), 7});
  decoder->reorder(std::vector<int64_t>{1, 0, 2, 2, 5, 4});  // within sentences
  std::span<const float> found =
      decoder->step(std::vector<int64_t>{8, token(0, 2), token(1, 2), token(1, 2), 8, token(2, 2)});
  expect_row(found, 1, reference_->log_probs[0][2]);
  expect_row(found, 2, reference_->log_probs[1][2]);
  expect_row(found, 3, reference_->log_probs[1][2]);
  decoder->reorder(std::vector<int64_t>{3, 1});  // the last sentence is done
  found = decoder->step(std::vector<int64_t>{token(1, 3), token(0, 3)});
  ASSERT_EQ(found.size(), static_cast<size_t>(2 * kVocabulary));
  expect_row(found, 0, reference_->log_probs[1][3]);
  expect_row(found, 1, reference_->log_probs[0][3]);
}

// All log probabilities of five steps, each of which goes on with the most probable token.
std::vector<float> written_by(framework::Decoder& decoder, const TokenBatch& sources) {
  std::vector<float> all;
  decoder.start(sources.view(), 2);
  std::vector<int64_t> tokens(static_cast<size_t>(2 * sources.samples), 2);
  for (int i = 0; i < 5; ++i) {
    const std::span<const float> found = decoder.step(tokens);
    all.insert(all.end(), found.begin(), found.end());
    for (size_t row = 0; row < tokens.size(); ++row) {
      const auto own = found.subspan(row * kVocabulary, kVocabulary);
      tokens[row] = std::ranges::max_element(own) - own.begin();
    }
  }
  return all;
}

TEST_P(Decoding, DecodersAtOnceHaveTheBitsOfADecoderOfOneThread) {
  std::vector<TokenBatch> sources;
  for (uint64_t i = 0; i < 12; ++i) {
    sources.push_back(translation_batch({sentence_pair(kVocabulary, 3 + static_cast<int64_t>(i), 4, 3 * i + 1),
                                         sentence_pair(kVocabulary, 2, 5, 3 * i + 2)}));
  }
  std::vector<std::vector<float>> of_one_thread;
  for (const int threads : {1, 2, 3}) {
    FrameworkOptions options = text_options(model());
    options.threads = threads;
    const auto framework = started(options);
    std::vector<std::vector<float>> of_all_threads, found(sources.size());
    {
      const auto decoder = framework->make_decoder();
      for (const TokenBatch& one : sources) of_all_threads.push_back(written_by(*decoder, one));
    }
    if (threads == 1) of_one_thread = of_all_threads;
    std::atomic<size_t> next = 0;
    std::atomic<int> calls = 0;
    framework->decode(3, [&](framework::Decoder& decoder) {
      ++calls;
      for (size_t i = next++; i < sources.size(); i = next++) found[i] = written_by(decoder, sources[i]);
    });
    EXPECT_EQ(found, calls == 1 ? of_all_threads : of_one_thread) << threads << " threads";
    EXPECT_GE(calls, 1);
    EXPECT_LE(calls, 3);
  }
  EXPECT_THROW(framework_->decode(2, [](framework::Decoder&) { throw UserError("no"); }), UserError);
}

TEST_P(TextFramework, RefusesWhatItCannotDo) {
  const auto language = started(text_options("awd-lstm"));
  EXPECT_THAT([&] { language->make_decoder(); }, ThrowsMessage<UserError>(HasSubstr("gnmt and transformer")));
  language->forward(language_batch(kVocabulary, 3, 2).view(), Mode::kEvaluate);
  EXPECT_THAT([&] { language->outputs(); }, ThrowsMessage<UserError>(HasSubstr("its loss is over tokens")));
  models::Graph graph;
  graph.add("relu", "x", {graph.input("tokens", {models::kAny, models::kAny, 4})});
  graph.add("linear", "y", {"x"},
            {.options = {{"in", 4}, {"out", 5}, {"bias", false}}, .initialisers = {{"weight", {}}}});
  FrameworkOptions options;
  options.model = graph.finish();
  options.model.name = "odd";
  options.model.loss.kind = "cross_entropy";
  EXPECT_THAT([&] { GetParam().framework->make(options); },
              ThrowsMessage<UserError>(HasSubstr("valid: token_cross_entropy")));
  options.model.loss.kind = "token_cross_entropy";
  options.model.layers[0].kind = "batch_norm2d";
  EXPECT_THAT([&] { GetParam().framework->make(options); },
              ThrowsMessage<UserError>(HasSubstr("no layer 'batch_norm2d' in graphs (model 'odd'); it has: linear")));
}

// ---- other places and precisions

TEST_P(TextModel, AnswersTheSameFromMemoryOfItsOwn) {
  if (GetParam().framework->name != std::string("torch")) return;  // the others compute in the host's memory alone
  for (const char* device : {"mirror", "cuda"}) {
    if (device == std::string("cuda") && !torch::cuda::is_available()) continue;
    SCOPED_TRACE(device);
    FrameworkOptions options = text_options(model());
    const auto host = started(options);
    options.device = device;
    const auto other = started(options);
    const TokenBatch batch = batch_for(model());
    EXPECT_NEAR(step(*other, batch.view()), step(*host, batch.view()), 1e-5);
    EXPECT_LT(relative_difference(all_gradients(*other), all_gradients(*host)), 5e-6);
  }
}

TEST_P(TextModel, LearnsInSixteenBits) {
  for (const char* precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    FrameworkOptions options = text_options(model());
    const auto exact = started(options);
    options.precision = precision;
    std::unique_ptr<Framework> framework;
    try {
      framework = started(options);
    } catch (const UserError& refusal) {
      EXPECT_THAT(refusal.what(), HasSubstr(fmt::format("has no precision '{}'", precision)));
      continue;
    }
    const TokenBatch batch = batch_for(model());
    const double expected = step(*exact, batch.view());
    EXPECT_NEAR(step(*framework, batch.view()), expected, 0.02 * expected);
    EXPECT_LT(relative_difference(all_gradients(*framework), all_gradients(*exact)), 0.1);
  }
}

}  // namespace
}  // namespace mlbench::catalog
