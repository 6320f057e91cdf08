#include "mlbench/metrics/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"
#include "mlbench/base/test_odd_values.h"
#include "mlbench/metrics/text_metric.h"
#include "mlbench/spec/goal.h"

namespace mlbench::metrics {
namespace {

double value_of(const std::string& name, const std::vector<float>& scores, const std::vector<int64_t>& labels,
                int64_t classes, double loss_sum = 0) {
  const auto metric = make_metric(name);
  metric->add({scores, labels, classes, loss_sum});
  return metric->value();
}

TEST(Metric, NothingHasNoValue) {
  for (const std::string& name : metric_names()) {
    const auto metric = make_metric(name);
    EXPECT_EQ(metric->name(), name);
    EXPECT_TRUE(std::isnan(metric->value())) << name;
  }
}

TEST(Metric, EachHasADirection) {
  for (const std::string& name : metric_names()) EXPECT_TRUE(spec::higher_is_better(name)) << name;
}

TEST(Metric, LossIsTheMeanOverSamplesNotBatches) {
  const auto loss = make_metric("loss");
  const std::vector<float> scores(6, 0.0F);
  const std::vector<int64_t> labels = {0, 0, 0};
  loss->add({std::span(scores).first(4), std::span(labels).first(2), 2, 3.0});
  loss->add({std::span(scores).first(2), std::span(labels).first(1), 2, 0.75});
  EXPECT_DOUBLE_EQ(loss->value(), 1.25);
}

Outputs tokens(double loss_sum, double nll_sum, int64_t weight) {
  Outputs outputs;
  outputs.loss_sum = loss_sum;
  outputs.nll_sum = nll_sum;
  outputs.weight = weight;
  return outputs;
}

TEST(Metric, PerplexityIsOfTheMeanOverTokensNotBatches) {
  const auto perplexity = make_metric("Perplexity");
  const auto loss = make_metric("loss");
  for (const Outputs& batch : {tokens(9, 6, 3), tokens(1, 2, 1)}) {
    perplexity->add(batch);
    loss->add(batch);
  }
  EXPECT_DOUBLE_EQ(perplexity->value(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(loss->value(), 2.5);
}

TEST(Metric, TokensAndSamplesAreNotMixed) {
  EXPECT_THROW(make_metric("Prec@1")->add(tokens(1, 1, 1)), UserError);
  EXPECT_THROW(make_metric("Dice Coefficient")->add(tokens(1, 1, 1)), UserError);
  EXPECT_THROW(value_of("Perplexity", {0, 1}, {0}, 2), UserError);
}

Outputs texts(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  Outputs outputs;
  outputs.hypotheses = hypotheses;
  outputs.references = references;
  return outputs;
}

TEST(Metric, BleuIsThatOfTheCorpus) {
  const std::vector<std::string> hypotheses = {"The cat sat on the mat today.", "A dog runs very fast in the Park."};
  const std::vector<std::string> references = {"The cat sat on the mat yesterday.",
                                               "A dog runs very fast in the park."};
  const std::pair<const char*, TextMetricOptions> kinds[] = {{"BLEU", {}},
                                                             {"BLEU-intl-lc", {true, Tokenizer::kIntl, {}, false}},
                                                             {"BLEU-none", {false, Tokenizer::kNone, {}, false}}};
  for (const auto& [name, options] : kinds) {
    const auto expected = make_text_metric("bleu", options);
    std::vector<double> sums(expected->number_of_sums());
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      expected->add(hypotheses[i], std::span(references).subspan(i, 1), sums);
    }
    const auto metric = make_metric(name);
    const std::vector<std::string> one = {hypotheses[0]}, one_reference = {references[0]};
    metric->add(texts(one, one_reference));
    metric->add(tokens(1, 1, 1));  // the likelihood of the same split is ignored
    const std::vector<std::string> other = {hypotheses[1]}, other_reference = {references[1]};
    metric->add(texts(other, other_reference));
    EXPECT_EQ(metric->value(), expected->score(sums)) << name;
    EXPECT_GT(metric->value(), 20) << name;
    EXPECT_EQ(metric->sums().front(), 2) << name;
    metric->reset();
    EXPECT_TRUE(std::isnan(metric->value())) << name;
  }
  // The others have nothing to count.
  for (const char* name : {"loss", "Perplexity", "Prec@1"}) {
    const auto metric = make_metric(name);
    metric->add(texts(hypotheses, references));
    EXPECT_TRUE(std::isnan(metric->value())) << name;
  }
}

TEST(Metric, FitTheTask) {
  const auto error_with = [](const std::string& metric, const std::string& loss, int64_t beam,
                             const std::string& split = "test") {
    spec::TaskSpec task;
    task.loss = loss;
    task.evaluation.metrics = {"loss", metric};
    task.decoding.beam = beam;
    task.goal.metric = metric;
    task.goal.split = split;
    return error_of([&] { check_metrics(task); });
  };
  EXPECT_EQ(error_with("Prec@1", "cross_entropy", 0), "no error");
  EXPECT_EQ(error_with("Perplexity", "token_cross_entropy", 0, "train"), "no error");
  EXPECT_EQ(error_with("BLEU", "token_cross_entropy", 4), "no error");
  EXPECT_EQ(error_with("Mean Squared Error", "mean_squared_error", 0), "no error");
  EXPECT_EQ(error_with("Mean Squared Error", "binary_cross_entropy", 0),
            "metric 'Mean Squared Error' is for a loss of numbers, and 'loss' is \"binary_cross_entropy\"");
  EXPECT_EQ(error_with("Prec@1", "mean_squared_error", 0),
            "metric 'Prec@1' is for a loss that classifies samples, and 'loss' is \"mean_squared_error\"");
  EXPECT_EQ(error_with("Perplexity", "cross_entropy", 0),
            "metric 'Perplexity' is for a loss over tokens, and 'loss' is \"cross_entropy\"");
  EXPECT_EQ(error_with("Prec@1", "token_cross_entropy", 0),
            "metric 'Prec@1' is for a loss that classifies samples, and 'loss' is \"token_cross_entropy\"");
  EXPECT_EQ(error_with("BLEU-none", "token_cross_entropy", 0),
            "metric 'BLEU-none' is of translations, and 'decoding.beam' is 0; expected a table [decoding]");
  EXPECT_EQ(error_with("BLEU", "token_cross_entropy", 4, "train"),
            "metric 'BLEU' is of translations: 'goal.split' is \"train\"; expected \"test\"");
  EXPECT_THAT(error_with("accuracy", "cross_entropy", 0), testing::StartsWith("unknown metric 'accuracy'"));
}

TEST(Metric, MeanSquaredErrorIsOfNumbersAndMergesOverBatches) {
  const auto error = make_metric("Mean Squared Error");
  const std::vector<float> numbers = {0.5F, -2, 3};
  const std::vector<int64_t> labels = {1, 2, 7};
  error->add({std::span(numbers).first(2), std::span(labels).first(2), 1, 99});
  error->add({std::span(numbers).last(1), std::span(labels).last(1), 1, 99});
  EXPECT_DOUBLE_EQ(error->value(), (0.25 + 16 + 16) / 3);
  EXPECT_EQ(error_of([&] {
              value_of("Mean Squared Error", {0, 1}, {1}, 2);
            }),
            "metric 'Mean Squared Error' takes one number per sample, the task has 2 outputs for each");
}

TEST(Metric, ThoseOfTranslationsAreToldApart) {
  const std::vector<std::string> names = {"BLEU-none", "loss", "chrF2", "Perplexity"};
  EXPECT_THAT(of_translations(names), testing::ElementsAre("BLEU-none", "chrF2"));
  EXPECT_THAT(without_translations(names), testing::ElementsAre("loss", "Perplexity"));
}

TEST(Metric, TopOneCountsTheHighestScore) {
  //                     right          wrong          right
  EXPECT_DOUBLE_EQ(value_of("Prec@1", {0, 2, 1, /**/ 3, 1, 2, /**/ -1, -3, -2}, {1, 2, 0}, 3), 100.0 * 2 / 3);
}

TEST(Metric, TopOneOfEqualScoresIsTheFirst) {
  EXPECT_EQ(value_of("Prec@1", {1, 1}, {0}, 2), 100);
  EXPECT_EQ(value_of("Prec@1", {1, 1}, {1}, 2), 0);
}

TEST(Metric, TopFiveTakesRanksOneToFive) {
  const std::vector<float> scores = {9, 8, 7, 6, 5, 4, 3};
  for (int64_t label = 0; label < 7; ++label) {
    EXPECT_EQ(value_of("Prec@5", scores, {label}, 7), label < 5 ? 100 : 0) << label;
  }
}

// A batch of the table of unusual values.
void add_batch(Metric& metric, const Json& batch) {
  if (batch.contains("scores")) {
    std::vector<float> scores;
    for (const Json& row : batch["scores"]) {
      for (const Json& score : row) scores.push_back(static_cast<float>(odd_value(score)));
    }
    const auto labels = batch["labels"].get<std::vector<int64_t>>();
    const size_t width = batch["scores"].empty() ? 1 : batch["scores"][0].size();
    metric.add({scores, labels, static_cast<int64_t>(width)});
  } else if (batch.contains("hypotheses")) {
    const auto hypotheses = batch["hypotheses"].get<std::vector<std::string>>();
    const auto references = batch["references"].get<std::vector<std::string>>();
    metric.add(texts(hypotheses, references));
  } else {
    const auto samples = batch["samples"].get<int64_t>();
    const double sum = odd_value(batch["loss"]) * static_cast<double>(samples);
    metric.add(tokens(sum, sum, samples));
  }
}

TEST(Metric, OddValuesCountAsTheTableSays) {
  for (const Json& row : odd_values("metrics")) {
    SCOPED_TRACE(row.dump());
    const auto metric = make_metric(row["metric"]);
    const auto add_all = [&] {
      for (const Json& batch : row["batches"]) add_batch(*metric, batch);
    };
    if (row["value"] == "refused") {
      EXPECT_ANY_THROW(add_all());
      continue;
    }
    add_all();
    const double expected = odd_value(row["value"]), value = metric->value();
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(value) : value == expected || std::abs(value - expected) < 1e-8)
        << value;
  }
}

TEST(Metric, OneProbabilityStandsForTwoClasses) {
  EXPECT_EQ(value_of("Prec@1", {0.9F, 0.2F, 0.6F, 0.5F}, {1, 0, 0, 0}, 1), 75);
}

TEST(Metric, TopKNeedsMoreThanKClasses) { EXPECT_THROW(value_of("Prec@5", std::vector<float>(5), {0}, 5), UserError); }

TEST(Metric, F1OfCountedOutcomes) {
  // 3 true positives, 2 false positives, 1 false negative: P = 3/5, R = 3/4.
  const double f1 = value_of("F1-Score", {0.9F, 0.5F, 0.8F, 0.7F, 0.6F, 0.1F, 0.2F}, {1, 1, 1, 0, 0, 1, 0}, 1);
  EXPECT_NEAR(f1, 2.0 / 3, 1e-8);
  EXPECT_THROW(value_of("F1-Score", {0, 1}, {0}, 2), UserError);
}

TEST(Metric, DiceOfProbabilities) {
  EXPECT_NEAR(value_of("Dice Coefficient", {0.5F, 0.25F, 1.0F}, {1, 0, 1}, 1), (2 * 1.5 + 1e-4) / (1.75 + 2 + 1e-4),
              1e-12);
}

TEST(Metric, SumsOfRanksMergeExactly) {
  // The samples are added whole, and cut into three unequal parts: the values must agree to the last bit.
  std::vector<float> scores;
  std::vector<int64_t> labels;
  for (int i = 0; i < 1000; ++i) {
    scores.push_back(static_cast<float>((i * 7919) % 1024) / 1024.0F);
    labels.push_back((i * 31) % 3 == 0 ? 1 : 0);
  }
  for (const std::string name : {"loss", "Prec@1", "F1-Score", "Dice Coefficient"}) {
    const auto whole = make_metric(name);
    whole->add({scores, labels, 1, 750.5});
    const auto merged = make_metric(name);
    size_t first = 0;
    for (const auto& [count, loss] : {std::pair<size_t, double>{500, 250.25}, {499, 500}, {1, 0.25}}) {
      const auto part = make_metric(name);
      part->add({std::span(scores).subspan(first, count), std::span(labels).subspan(first, count), 1, loss});
      for (size_t i = 0; i < part->sums().size(); ++i) merged->sums()[i] += part->sums()[i];
      first += count;
    }
    EXPECT_EQ(whole->value(), merged->value()) << name;
    merged->reset();
    EXPECT_TRUE(std::isnan(merged->value())) << name;
  }
}

TEST(Metric, UnknownNameListsTheValidOnes) {
  try {
    make_metric("accuracy");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown metric 'accuracy'; valid: loss, Prec@1, Prec@5, F1-Score, Dice Coefficient, Mean Squared Error, "
        "Perplexity, BLEU, BLEU-intl-lc, BLEU-none, chrF2");
  }
}

}  // namespace
}  // namespace mlbench::metrics
