#include "mlbench/metrics/predictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"
#include "mlbench/metrics/metric.h"

namespace mlbench::metrics {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PredictionsTest : public testing::Test {
 protected:
  Predictions read(const std::string& text, const PredictionShape& shape = {3, 3, 3}) const {
    const auto file = folder_ / "p.jsonl";
    std::ofstream(file) << text;
    return read_predictions(file, shape);
  }

  std::string error_of(const std::string& text, const PredictionShape& shape = {3, 3, 3}) const {
    return mlbench::error_of([&] { read(text, shape); });
  }

  TemporaryFolder folder_;
};

TEST_F(PredictionsTest, LabelsInAnyOrder) {
  const auto read_back = read(
      "{\"index\": 2, \"label\": 1}\r\n\n"
      "{\"index\": 0, \"label\": 0, \"name\": \"x\"}\n"
      "{\"label\": 2, \"index\": 1}");  // without a line end
  EXPECT_THAT(read_back.labels, ElementsAre(0, 2, 1));
  EXPECT_TRUE(read_back.scores.empty());
}

TEST_F(PredictionsTest, ScoresInAnyOrder) {
  const auto read_back = read("{\"index\":1,\"scores\":[1,-2.5]}\n{\"index\":0,\"scores\":[0.25,3]}\n", {2, 2, 2});
  EXPECT_THAT(read_back.scores, ElementsAre(0.25F, 3, 1, -2.5F));
}

TEST_F(PredictionsTest, AreUtf8WithOrWithoutItsMark) {
  const std::string lines = "{\"index\":0,\"label\":0}\n{\"index\":1,\"label\":1}\n{\"index\":2,\"label\":2}\n";
  EXPECT_THAT(read("\xEF\xBB\xBF" + lines).labels, ElementsAre(0, 1, 2));
  std::string wide = "\xFF\xFE";
  for (const char c : lines) wide += {c, '\0'};
  EXPECT_THAT(error_of(wide), HasSubstr("is text in UTF-16"));
  EXPECT_THAT(error_of(wide.substr(2)), HasSubstr("byte 2 is zero"));
  EXPECT_THAT(error_of("{\"index\":0,\"label\":0}" + std::string(1, '\0') + "?\n"), HasSubstr("byte 22 is zero"));
}

TEST_F(PredictionsTest, DeepLinesAreNamed) {
  const std::string deep(500'000, '[');
  EXPECT_THAT(error_of("{\"index\":0,\"label\":0}\n" + deep + "\n"), HasSubstr(":2: "));
  EXPECT_THAT(error_of("{\"index\":0,\"label\":" + deep + "}\n"), HasSubstr(":1: "));
}

TEST_F(PredictionsTest, MetricsOfLabels) {
  const auto predictions = read("{\"index\":0,\"label\":0}\n{\"index\":1,\"label\":2}\n{\"index\":2,\"label\":2}\n");
  const std::vector<int64_t> truth = {0, 1, 2};
  const auto result = evaluate(predictions, truth, {"Prec@1", "Prec@5", "loss"});
  EXPECT_DOUBLE_EQ(result.values["Prec@1"].get<double>(), 100.0 * 2 / 3);
  EXPECT_TRUE(result.values["Prec@5"].is_null());
  EXPECT_TRUE(result.values["loss"].is_null());
  EXPECT_THAT(result.notes, ElementsAre(HasSubstr("Prec@5 is unknown: it needs scores"), HasSubstr("loss is unknown")));
}

TEST_F(PredictionsTest, MetricsOfScores) {
  // Seven classes; the right one has rank 1, 5 and 6.
  std::string text;
  for (int i = 0; i < 3; ++i) text += fmt::format("{{\"index\": {}, \"scores\": [7, 6, 5, 4, 3, 2, 1]}}\n", i);
  const std::vector<int64_t> truth = {0, 4, 5};
  const auto result = evaluate(read(text, {3, 7, 7}), truth, {"Prec@1", "Prec@5"});
  EXPECT_DOUBLE_EQ(result.values["Prec@1"].get<double>(), 100.0 / 3);
  EXPECT_DOUBLE_EQ(result.values["Prec@5"].get<double>(), 200.0 / 3);
  EXPECT_TRUE(result.notes.empty());
}

TEST_F(PredictionsTest, ABinaryTaskTakesProbabilitiesOrLabels) {
  // True positive, false positive, false negative, true negative.
  const std::vector<int64_t> truth = {1, 0, 1, 0};
  const std::vector<double> probabilities = {0.75, 0.5, 0.25, 0};
  std::string scores, labels;
  for (size_t i = 0; i < truth.size(); ++i) {
    scores += fmt::format("{{\"index\": {}, \"scores\": [{}]}}\n", i, probabilities[i]);
    labels += fmt::format("{{\"index\": {}, \"label\": {}}}\n", i, probabilities[i] >= 0.5 ? 1 : 0);
  }
  const std::vector<std::string> names = {"Prec@1", "F1-Score", "Dice Coefficient"};
  const PredictionShape shape{4, 2, 1};
  const auto of_scores = evaluate(read(scores, shape), truth, names);
  // Prec@1 takes class 0 of two equal scores, F1 takes 0.5 as class 1.
  EXPECT_EQ(of_scores.values["Prec@1"], 75);
  EXPECT_NEAR(of_scores.values["F1-Score"].get<double>(), 0.5, 1e-8);
  EXPECT_NEAR(of_scores.values["Dice Coefficient"].get<double>(), (2.0 + 1e-4) / (1.5 + 2 + 1e-4), 1e-12);
  const auto of_labels = evaluate(read(labels, shape), truth, names);
  EXPECT_EQ(of_labels.values["Prec@1"], 50);
  EXPECT_NEAR(of_labels.values["F1-Score"].get<double>(), 0.5, 1e-8);
  EXPECT_TRUE(of_labels.values["Dice Coefficient"].is_null());
}

TEST_F(PredictionsTest, TheOrderOfLinesChangesNothing) {
  std::vector<std::string> lines;
  std::vector<int64_t> truth;
  for (int i = 0; i < 500; ++i) {
    lines.push_back(fmt::format("{{\"index\": {}, \"scores\": [{}]}}\n", i, (i * 7919 % 997) / 997.0));
    truth.push_back(i % 2);
  }
  const auto dice = [&] {
    const auto result =
        evaluate(read(fmt::format("{}", fmt::join(lines, "")), {500, 2, 1}), truth, {"Dice Coefficient"});
    return result.values["Dice Coefficient"].get<double>();
  };
  const double in_order = dice();
  std::reverse(lines.begin(), lines.end());
  EXPECT_EQ(dice(), in_order);
}

TEST_F(PredictionsTest, ErrorsNameTheLine) {
  const std::string good = "{\"index\": 0, \"label\": 0}\n";
  EXPECT_THAT(error_of(good + "label 1\n"), AllOf(HasSubstr("p.jsonl:2: 'label 1' is no JSON object")));
  EXPECT_THAT(error_of(good + "[1]\n"), HasSubstr(":2: '[1]' is no JSON object"));
  EXPECT_THAT(error_of("\n" + good + "{\"label\": 1}\n"), HasSubstr(":3: there is no \"index\""));
  for (const char* index : {"3", "-1", "1.5", "\"1\"", "18446744073709551615"}) {
    EXPECT_THAT(error_of(good + fmt::format("{{\"index\": {}, \"label\": 1}}\n", index)),
                HasSubstr(fmt::format(":2: index {} is not among the split's 3 samples: 0 to 2", index)));
  }
  EXPECT_THAT(error_of(good + "\n" + good), HasSubstr(":3: index 0 was given before, in line 1"));
  for (const char* label : {"3", "-1", "1.0", "null"}) {
    EXPECT_THAT(error_of(good + fmt::format("{{\"index\": 1, \"label\": {}}}\n", label)),
                HasSubstr(fmt::format(":2: label {} is none of the 3 classes: 0 to 2", label)));
  }
  EXPECT_THAT(error_of("{\"index\": 0}\n"), HasSubstr(":1: there is neither \"label\" nor \"scores\""));
  EXPECT_THAT(error_of("{\"index\": 0, \"text\": \"Hallo\"}\n"), HasSubstr("this task classifies samples"));
  EXPECT_THAT(error_of("{\"index\": 0, \"label\": 1, \"scores\": [1, 2, 3]}\n"), HasSubstr("not both"));
  EXPECT_THAT(error_of(good + "{\"index\": 1, \"scores\": [1, 2, 3]}\n"),
              HasSubstr(":2: there are scores, but labels in line 1"));
  EXPECT_THAT(error_of("{\"index\": 0, \"scores\": [1, 2]}\n"),
              HasSubstr(":1: there are 2 scores; expected 3 numbers"));
  EXPECT_THAT(error_of("{\"index\": 0, \"scores\": 1}\n"), HasSubstr("scores are 1; expected a list of 3 numbers"));
  EXPECT_THAT(error_of("{\"index\": 0, \"scores\": [1, null, 2]}\n"), HasSubstr("score 1 is null"));
  EXPECT_THAT(error_of("{\"index\": 0, \"scores\": [1, 2, 1e300]}\n"), HasSubstr("fits into float32"));
  EXPECT_THAT(error_of("{\"index\": 0, \"scores\": [1, 2]}\n", {3, 2, 1}),
              HasSubstr("expected one number: the probability of class 1"));
  EXPECT_THAT(error_of("{\"index\": 0, \"scores\": [1.5]}\n", {3, 2, 1}), HasSubstr("no probability"));
  EXPECT_THAT(error_of(good + std::string(2 << 20, ' ') + "\n"),
              HasSubstr(":2: the line is longer than 1048576 bytes"));
}

TEST_F(PredictionsTest, EverySampleNeedsAPrediction) {
  EXPECT_THAT(error_of("{\"index\": 1, \"label\": 0}\n"),
              HasSubstr("2 of the split's 3 samples have no prediction: 0, 2"));
  EXPECT_THAT(error_of("", {9, 3, 3}), HasSubstr("9 of the split's 9 samples have no prediction: 0, 1, 2, 3, 4, ..."));
  EXPECT_THROW(read_predictions(folder_ / "none", {3, 3, 3}), IoError);
}

TEST(Needs, SayWhatPredictionsCanTell) {
  EXPECT_EQ(needs_of("Prec@1"), Needs::kLabel);
  EXPECT_EQ(needs_of("Prec@5"), Needs::kScores);
  EXPECT_EQ(needs_of("Mean Squared Error"), Needs::kNumbers);
  EXPECT_EQ(needs_of("loss"), Needs::kLoss);
  EXPECT_EQ(needs_of("Perplexity"), Needs::kTokens);
  EXPECT_EQ(needs_of("BLEU-intl-lc"), Needs::kTranslations);
  EXPECT_THROW(needs_of("accuracy"), UserError);
}

}  // namespace
}  // namespace mlbench::metrics
