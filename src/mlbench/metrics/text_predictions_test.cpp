#include "mlbench/metrics/text_predictions.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"

namespace mlbench::metrics {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TextPredictionsTest : public testing::Test {
 protected:
  TextPredictions read(const std::string& text, const TextShape& shape) const {
    const auto file = folder_ / "p.jsonl";
    std::ofstream(file) << text;
    return read_text_predictions(file, shape);
  }
  std::string error_of(const std::string& text, const TextShape& shape) const {
    return mlbench::error_of([&] { read(text, shape); });
  }

  TemporaryFolder folder_;
  const TextShape pairs_{.tokens = {3, 5}};
  const TextShape text_{.least_tokens = 90, .most_tokens = 100};
};

TEST_F(TextPredictionsTest, TextsAndLikelihoodsOfPairsInAnyOrder) {
  const TextPredictions both = read(
      "{\"index\":1,\"text\":\"Zwei\\nHunde\",\"nll\":4.5,\"tokens\":5}\n\n"
      "{\"index\":0,\"text\":\"\",\"nll\":1,\"tokens\":3}\n",
      pairs_);
  EXPECT_THAT(both.texts, ElementsAre("", "Zwei Hunde"));
  EXPECT_EQ(both.tokens, 8);
  EXPECT_EQ(both.nll, 5.5);
  const TextPredictions texts = read("{\"index\":1,\"text\":\"b\"}\n{\"index\":0,\"text\":\"a\"}\n", pairs_);
  EXPECT_THAT(texts.texts, ElementsAre("a", "b"));
  EXPECT_EQ(texts.tokens, 0);
}

TEST_F(TextPredictionsTest, PiecesOfATextAreAsManyAsTheSolverLikes) {
  const TextPredictions pieces =
      read("{\"index\":1,\"nll\":30,\"tokens\":10}\n{\"index\":0,\"nll\":20.5,\"tokens\":80}\n", text_);
  EXPECT_TRUE(pieces.texts.empty());
  EXPECT_EQ(pieces.tokens, 90);
  EXPECT_EQ(pieces.nll, 50.5);
  const PredictionMetrics metrics = evaluate(pieces, {}, {"Perplexity", "loss"});
  EXPECT_DOUBLE_EQ(metrics.values["Perplexity"].get<double>(), std::exp(50.5 / 90));
  EXPECT_TRUE(metrics.values["loss"].is_null());
  EXPECT_THAT(metrics.notes, ElementsAre("loss is unknown: predictions do not tell the loss of a model"));
}

TEST_F(TextPredictionsTest, ErrorsSayWhereAndWhat) {
  const std::string one = "{\"index\":0,\"text\":\"a\"}\n";
  EXPECT_THAT(error_of(one, pairs_), HasSubstr("1 of the split's 2 pairs have no prediction: 1"));
  EXPECT_THAT(error_of(one + one, pairs_), HasSubstr(":2: index 0 was given before, in line 1"));
  EXPECT_THAT(error_of("{\"index\":2,\"text\":\"a\"}", pairs_),
              HasSubstr("index 2 is not among the split's 2 pairs: 0 to 1"));
  EXPECT_THAT(error_of(one + "{\"index\":1,\"nll\":1,\"tokens\":5}", pairs_), HasSubstr(":2: line 1 has other keys"));
  EXPECT_THAT(error_of("{\"index\":0,\"text\":7}", pairs_), HasSubstr("text is 7; expected a string"));
  EXPECT_THAT(error_of("{\"index\":0,\"label\":7}", pairs_),
              AllOf(HasSubstr("loss of this task is over tokens"), HasSubstr("\"text\", or \"nll\" and \"tokens\"")));
  EXPECT_THAT(error_of("{\"index\":0,\"nll\":7}", pairs_), HasSubstr("expected a prediction"));
  EXPECT_THAT(error_of("{\"index\":0,\"nll\":-1,\"tokens\":3}", pairs_),
              HasSubstr("nll is -1; expected a number of at least 0"));
  EXPECT_THAT(error_of("{\"index\":0,\"nll\":1,\"tokens\":4}", pairs_),
              HasSubstr("tokens is 4; the prepared target of pair 0 has 3, with its end"));
  EXPECT_THAT(error_of("{\"index\":0,\"nll\":1,\"tokens\":89}", text_),
              HasSubstr("89 tokens are predicted; expected 90 (what a run predicts) to 100 (all of the text)"));
  EXPECT_THAT(error_of("{\"index\":0,\"nll\":1,\"tokens\":101}", text_), HasSubstr("tokens is 101; expected 1 to 100"));
  EXPECT_THAT(error_of("{\"index\":0,\"nll\":1,\"tokens\":60}\n{\"index\":1,\"nll\":1,\"tokens\":60}", text_),
              HasSubstr("120 tokens are predicted"));
  EXPECT_THAT(error_of("{\"index\":1,\"nll\":1,\"tokens\":95}", text_), HasSubstr("have no prediction: 0"));
  EXPECT_THAT(error_of("{\"index\":0,\"text\":\"a\"}", text_),
              AllOf(HasSubstr("give \"nll\" and \"tokens\""), testing::Not(HasSubstr("\"text\","))));
  EXPECT_THAT(error_of("", text_), HasSubstr("0 tokens are predicted"));
}

TEST_F(TextPredictionsTest, TranslationsAreScoredAsThoseOfRuns) {
  const std::vector<std::string> references = {"Ein Hund bellt laut.", "Zwei Katzen schlafen auf dem Sofa."};
  const TextPredictions some{.texts = {"Ein Hund bellt leise.", "Zwei Katzen schlafen auf dem Sofa."}};
  const PredictionMetrics metrics = evaluate(some, references, {"BLEU", "Perplexity", "loss"});
  const double bleu = metrics.values["BLEU"].get<double>();
  EXPECT_GT(bleu, 50);
  EXPECT_LT(bleu, 100);
  EXPECT_TRUE(metrics.values["Perplexity"].is_null());
  EXPECT_THAT(metrics.notes, testing::Contains(HasSubstr("Perplexity is unknown: the predictions have no \"nll\"")));
  EXPECT_DOUBLE_EQ(evaluate({.texts = references}, references, {"BLEU"}).values["BLEU"].get<double>(), 100);
  EXPECT_THAT(evaluate(some, {}, {"BLEU"}).notes, ElementsAre("BLEU is unknown: made data have no references"));
  EXPECT_THAT(evaluate({.tokens = 4, .nll = 2}, references, {"BLEU"}).notes,
              ElementsAre("BLEU is unknown: the predictions have no \"text\""));
}

}  // namespace
}  // namespace mlbench::metrics
