#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/models/graph.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"

namespace mlbench::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

spec::TaskSpec text_task(const std::string& model, int64_t vocabulary, Json options = Json::object()) {
  spec::TaskSpec task;
  task.model = {model, std::move(options)};
  task.data.name = "text";
  task.data.classes = vocabulary;
  task.loss = "token_cross_entropy";
  return task;
}

const LayerSpec& layer_of(const ModelDescription& model, const std::string& name) {
  const auto found = std::ranges::find(model.layers, name, &LayerSpec::name);
  MLBENCH_CHECK(found != model.layers.end(), name);
  return *found;
}

TEST(TextModels, HaveTheParametersOfTheTasks) {
  EXPECT_EQ(describe_model(text_task("awd-lstm", 33278)).parameter_count(), 33'556'078);
  EXPECT_EQ(describe_model(text_task("gnmt", 32320)).parameter_count(), 160'671'297);
  EXPECT_EQ(describe_model(text_task("transformer", 33712)).parameter_count(), 210'808'832);
}

// Every parameter once, by a layer that uses it; every value made before it is taken.
TEST(TextModels, AreGraphsInOrder) {
  for (const char* name : {"awd-lstm", "gnmt", "transformer"}) {
    for (const char* size : {"full", "small", "tiny"}) {
      SCOPED_TRACE(std::string(name) + " " + size);
      const ModelDescription model = describe_model(text_task(name, 1000, {{"size", size}}));
      EXPECT_TRUE(model.is_graph());
      EXPECT_EQ(model.outputs, 1000);
      EXPECT_TRUE(model.input_shape.empty());
      std::set<std::string> values(model.inputs.begin(), model.inputs.end()), used, listed;
      for (const LayerSpec& layer : model.layers) {
        for (const std::string& input : layer.inputs) EXPECT_TRUE(values.contains(input)) << layer.name << " " << input;
        EXPECT_TRUE(values.insert(layer.output).second) << layer.output;
        for (const auto& parameter : find_layer_kind(layer.kind).parameters(layer)) {
          used.insert(parameter_name(layer, parameter.role));
        }
      }
      for (const ParameterSpec& parameter : model.parameters) EXPECT_TRUE(listed.insert(parameter.name).second);
      EXPECT_EQ(used, listed);
      EXPECT_EQ(model.layers.back().kind, "linear");
    }
  }
}

TEST(TextModels, SayWhatTheirLossReadsAndWhoWritesSequences) {
  spec::TaskSpec task = text_task("transformer", 100, {{"size", "tiny"}});
  task.label_smoothing = 0.1;
  const ModelDescription transformer = describe_model(task);
  EXPECT_EQ(transformer.loss.kind, "token_cross_entropy");
  EXPECT_EQ(transformer.loss.label_smoothing, 0.1);
  EXPECT_EQ(transformer.loss.ignored, 0);
  EXPECT_EQ(transformer.loss.targets, "target_out");
  EXPECT_EQ(transformer.decoder_input, "target_in");
  const ModelDescription awd = describe_model(text_task("awd-lstm", 100));
  EXPECT_EQ(awd.loss.ignored, -1);
  EXPECT_EQ(awd.loss.targets, "targets");
  EXPECT_EQ(awd.decoder_input, "");
  EXPECT_THAT(awd.inputs, ElementsAre("tokens"));
  EXPECT_THAT(awd.penalties, ElementsAre("penalty"));
}

TEST(AwdLstm, TiesTheSoftmaxAndHasAllDropouts) {
  const ModelDescription model = describe_model(text_task("awd-lstm", 33278));
  EXPECT_EQ(parameter_name(layer_of(model, "softmax"), "weight"), "embedding.weight");
  EXPECT_EQ(parameter_name(layer_of(model, "softmax"), "bias"), "softmax.bias");
  EXPECT_EQ(layer_of(model, "embedding").options["row_dropout"], 0.1);
  EXPECT_EQ(layer_of(model, "input_dropout").options["p"], 0.65);
  EXPECT_EQ(layer_of(model, "hidden_dropout1").options["p"], 0.2);
  EXPECT_EQ(layer_of(model, "hidden_dropout2").options["p"], 0.2);
  EXPECT_EQ(layer_of(model, "output_dropout").options["p"], 0.4);
  for (const char* name : {"lstm1", "lstm2", "lstm3"}) {
    EXPECT_EQ(layer_of(model, name).options["weight_dropout"], 0.5);
    EXPECT_EQ(layer_of(model, name).options["carried"], true);
  }
  EXPECT_EQ(layer_of(model, "lstm1").options["hidden"], 1150);
  EXPECT_EQ(layer_of(model, "lstm3").options["hidden"], 400);
  EXPECT_EQ(layer_of(model, "penalty").options["alpha"], 2);
  EXPECT_EQ(layer_of(model, "penalty").options["beta"], 1);

  const ModelDescription small = describe_model(text_task("awd-lstm", 33278, {{"size", "small"}}));
  EXPECT_EQ(small.parameter_count(), 33278 * 201 + 2 * (2 * 800 * 200 + 2 * 800));
  const ModelDescription plain = describe_model(text_task("awd-lstm", 33278,
                                                          {{"output_dropout", 0},
                                                           {"input_dropout", 0},
                                                           {"hidden_dropout", 0},
                                                           {"activation_regularisation", 0},
                                                           {"temporal_regularisation", 0}}));
  EXPECT_TRUE(plain.penalties.empty());
  EXPECT_TRUE(std::ranges::none_of(plain.layers, [](const LayerSpec& one) { return one.kind == "locked_dropout"; }));
}

TEST(Gnmt, SharesTheEmbeddingAndAppendsTheContext) {
  const ModelDescription model = describe_model(text_task("gnmt", 32320));
  EXPECT_EQ(parameter_name(layer_of(model, "target_embedding"), "weight"), "embedding.weight");
  EXPECT_TRUE(layer_of(model, "softmax").shared.empty());
  EXPECT_EQ(layer_of(model, "encoder.lstm2").options["in"], 2048) << "of both directions";
  EXPECT_EQ(layer_of(model, "encoder.lstm3").options["in"], 1024);
  for (const char* name : {"decoder.lstm2", "decoder.lstm3", "decoder.lstm4"}) {
    EXPECT_EQ(layer_of(model, name).options["in"], 2048) << "with the context";
  }
  EXPECT_THAT(layer_of(model, "encoder.sum3").inputs, ElementsAre("encoder.lstm2", "encoder.lstm3"));
  EXPECT_TRUE(std::ranges::none_of(model.layers, [](const LayerSpec& one) { return one.name == "decoder.sum2"; }));
}

TEST(Transformer, IsPreNormWithOneEmbedding) {
  const ModelDescription model = describe_model(text_task("transformer", 33712));
  for (const char* name : {"target_embedding", "softmax"}) {
    EXPECT_EQ(parameter_name(layer_of(model, name), "weight"), "embedding.weight");
  }
  EXPECT_EQ(layer_of(model, "embedding").options["scale"], 32);
  EXPECT_THAT(layer_of(model, "encoder1.self_attention").inputs, ElementsAre("encoder1.norm1", "source_lengths"));
  EXPECT_THAT(layer_of(model, "decoder6.cross_attention").inputs,
              ElementsAre("decoder6.norm2", "source_lengths", "encoder_norm"));
  EXPECT_EQ(layer_of(model, "decoder1.self_attention").options["causal"], true);
  EXPECT_THAT(layer_of(model, "softmax").inputs, ElementsAre("decoder_norm"));
}

// ---- initial weights, by what MLBench's code draws them from --------------------------------------------------------

// Values of the rows [first, first + rows) of a parameter; all of them where rows is 0.
std::vector<float> drawn(const ModelDescription& model, const std::string& name, int64_t first = 0, int64_t rows = 0) {
  const auto found = std::ranges::find(model.parameters, name, &ParameterSpec::name);
  MLBENCH_CHECK(found != model.parameters.end(), name);
  std::vector<float> values(static_cast<size_t>(volume_of(found->shape)));
  initialise(*found, static_cast<size_t>(found - model.parameters.begin()), 42, values);
  const int64_t row = std::ssize(values) / found->shape.front();
  if (rows == 0) return values;
  return {values.begin() + first * row, values.begin() + (first + rows) * row};
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments_of(const std::vector<float>& values) {
  Moments moments;
  for (const float value : values) moments.mean += static_cast<double>(value);
  moments.mean /= static_cast<double>(values.size());
  for (const float value : values) {
    moments.deviation += std::pow(static_cast<double>(value) - moments.mean, 2);
    moments.largest = std::max(moments.largest, std::abs(static_cast<double>(value)));
  }
  moments.deviation = std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

// The mean of n values must lie within 5 standard errors; the largest value must come near the bound.
void expect_uniform(const std::vector<float>& values, double bound) {
  const Moments moments = moments_of(values);
  const auto n = static_cast<double>(values.size());
  EXPECT_LE(moments.largest, bound * (1 + 1e-6));
  EXPECT_GE(moments.largest, bound * (1 - 20 / n));
  EXPECT_NEAR(moments.deviation, bound / std::sqrt(3.0), 5 * bound / std::sqrt(n));
  EXPECT_NEAR(moments.mean, 0, 5 * bound / std::sqrt(3 * n));
}

TEST(Transformer, QueriesKeysAndValuesAreThreeMatrices) {
  constexpr double kBound = 0.054126587736527;  // sqrt(6 / (1024 + 1024))
  const ModelDescription model = describe_model(text_task("transformer", 100));
  for (const char* name : {"encoder1.self_attention", "decoder6.self_attention", "decoder6.cross_attention"}) {
    for (int64_t part = 0; part < 3; ++part) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(part));
      expect_uniform(drawn(model, std::string(name) + ".in_weight", 1024 * part, 1024), kBound);
    }
    expect_uniform(drawn(model, std::string(name) + ".out_weight"), kBound);
  }
}

TEST(Transformer, StartsAsTheCodeDoes) {
  const ModelDescription model = describe_model(text_task("transformer", 1000));
  const Moments padding = moments_of(drawn(model, "embedding.weight", 0, 1));
  EXPECT_EQ(padding.largest, 0);
  const Moments embedding = moments_of(drawn(model, "embedding.weight", 1, 999));
  EXPECT_NEAR(embedding.deviation, 1 / 32.0, 1e-4);
  EXPECT_NEAR(embedding.mean, 0, 2e-4);
  EXPECT_GT(embedding.largest, 4 / 32.0) << "normal, not uniform";
  constexpr double kFeed = 0.034232659844072;  // sqrt(6 / (1024 + 4096))
  expect_uniform(drawn(model, "encoder1.feed.fc1.weight"), kFeed);
  expect_uniform(drawn(model, "decoder1.feed.fc2.weight"), kFeed);
  EXPECT_EQ(moments_of(drawn(model, "decoder1.feed.fc1.bias")).largest, 0);
  const Moments norm = moments_of(drawn(model, "encoder1.norm1.weight"));
  EXPECT_EQ(norm.mean, 1);
  EXPECT_EQ(norm.deviation, 0);
  EXPECT_EQ(moments_of(drawn(model, "encoder1.norm1.bias")).largest, 0);
}

TEST(Gnmt, StartsAsTheCodeDoes) {
  for (const double bound : {0.1, 0.02}) {
    const ModelDescription model = describe_model(text_task("gnmt", 500, {{"initial_bound", bound}}));
    for (const char* name : {"embedding.weight", "encoder.lstm1.weight_ih", "encoder.lstm1_reverse.weight_hh",
                             "encoder.lstm4.bias_ih", "decoder.lstm4.weight_ih", "attention.query_weight",
                             "attention.key_weight", "attention.score_weight", "softmax.weight", "softmax.bias"}) {
      SCOPED_TRACE(name);
      expect_uniform(drawn(model, name), bound);
    }
    EXPECT_EQ(moments_of(drawn(model, "encoder.lstm1.bias_hh")).largest, 0);
    EXPECT_EQ(moments_of(drawn(model, "attention.score_bias")).largest, 0);
    EXPECT_THAT(drawn(model, "attention.score_scale"), ElementsAre(1 / 32.0F));
  }
  expect_uniform(drawn(describe_model(text_task("gnmt", 500)), "attention.score_weight"), 0.1);
}

TEST(AwdLstm, StartsAsTheCodeDoes) {
  const ModelDescription model = describe_model(text_task("awd-lstm", 500));
  expect_uniform(drawn(model, "embedding.weight"), 0.1);
  for (const char* role : {".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh"}) {
    SCOPED_TRACE(role);
    expect_uniform(drawn(model, std::string("lstm1") + role), 1 / std::sqrt(1150.0));
    expect_uniform(drawn(model, std::string("lstm3") + role), 1 / std::sqrt(400.0));
  }
  EXPECT_EQ(moments_of(drawn(model, "softmax.bias")).largest, 0);
}

TEST(TextModels, RefuseWhatTheyCannotBuild) {
  EXPECT_THAT(
      [] {
        describe_model(text_task("gnmt", 100, {{"size", "huge"}}));
      },
      ThrowsMessage<UserError>(HasSubstr("model 'gnmt' has no size 'huge'; valid: full, small, tiny")));
  EXPECT_THAT(
      [] {
        describe_model(text_task("gnmt", 100, {{"dropouts", 0.1}}));
      },
      ThrowsMessage<UserError>(
          HasSubstr("no option 'dropouts': did you mean 'dropout'? valid: size, dropout, initial_bound")));
  EXPECT_THAT(
      [] {
        describe_model(text_task("awd-lstm", 100, {{"weight_dropout", 1.0}}));
      },
      ThrowsMessage<UserError>(HasSubstr("'weight_dropout' of model 'awd-lstm' is 1.0")));
  EXPECT_THAT([] { describe_model(text_task("transformer", 4)); },
              ThrowsMessage<UserError>(HasSubstr("the size of the vocabulary, of at least 5")));
  spec::TaskSpec task = text_task("transformer", 100);
  task.data.sample_shape = {3, 32, 32};
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("takes text")));
  task = text_task("transformer", 100);
  task.loss = "cross_entropy";
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("expected token_cross_entropy")));
}

TEST(Dropout, TheFirstMicroBatchHasTheKeyOfTheStep) {
  EXPECT_EQ(dropout_key(1, 2, 3, 4, 0), dropout_key(1, 2, 3, 4));
  EXPECT_NE(dropout_key(1, 2, 3, 4, 1), dropout_key(1, 2, 3, 4));
  EXPECT_NE(dropout_key(1, 2, 3, 4, 1), dropout_key(1, 2, 3, 4, 2));
}

}  // namespace
}  // namespace mlbench::models
