#include "mlbench/metrics/text_predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/metrics/prediction_lines.h"

namespace mlbench::metrics {

namespace {

class TextReader {
 public:
  TextReader(const std::filesystem::path& file, const TextShape& shape)
      : shape_(shape),
        file_(file.string()),
        lines_(file, pairs() ? std::ssize(shape.tokens) : shape.most_tokens, whose()) {}

  TextPredictions read() {
    lines_.read([this](const Json& line, size_t index) { take(line, index); });
    lines_.check_complete(pairs() ? std::ssize(shape_.tokens) : lines_.most() + 1);
    const int64_t tokens = predictions_.tokens;
    if (!pairs() && (tokens < shape_.least_tokens || tokens > shape_.most_tokens)) {
      throw UserError(
          fmt::format("{}: {} tokens are predicted; expected {} (what a run predicts) to {} (all of the text)", file_,
                      tokens, shape_.least_tokens, shape_.most_tokens));
    }
    return std::move(predictions_);
  }

 private:
  bool pairs() const { return !shape_.tokens.empty(); }
  std::string whose() const {
    return pairs() ? fmt::format("the split's {} pairs", shape_.tokens.size())
                   : fmt::format("pieces of the split's {} tokens", shape_.most_tokens);
  }
  const char* expected() const {
    return pairs() ? "give \"text\", or \"nll\" and \"tokens\"" : "give \"nll\" and \"tokens\"";
  }

  void take(const Json& line, size_t index) {
    const bool text = pairs() && line.contains("text"), nll = line.contains("nll") && line.contains("tokens");
    if (!text && !nll) {
      lines_.fail(line.contains("label") || line.contains("scores")
                      ? fmt::format("the loss of this task is over tokens: {}", expected())
                      : fmt::format("expected a prediction: {}", expected()));
    }
    if (first_line_ == 0) {
      first_line_ = lines_.line();
      has_text_ = text;
      has_nll_ = nll;
      if (text) predictions_.texts.resize(shape_.tokens.size());
    }
    if (text != has_text_ || nll != has_nll_) {
      lines_.fail(fmt::format(
          "line {} has other keys: \"text\", and \"nll\" with \"tokens\", are in all lines or in none", first_line_));
    }
    if (text) take_text(line["text"], index);
    if (nll) take_nll(line, index);
  }

  void take_text(const Json& text, size_t index) {
    if (!text.is_string()) lines_.fail(fmt::format("text is {}; expected a string", shortened(text.dump())));
    std::string& taken = predictions_.texts[index] = text.get<std::string>();
    std::ranges::replace_if(
        taken, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  }

  void take_nll(const Json& line, size_t index) {
    const Json &nll = line["nll"], &tokens = line["tokens"];
    const double value = nll.is_number() ? nll.get<double>() : NAN;
    if (!(value >= 0) || std::isinf(value)) {
      lines_.fail(fmt::format("nll is {}; expected a number of at least 0", shortened(nll.dump())));
    }
    const int64_t most = pairs() ? shape_.tokens[index] : shape_.most_tokens;
    const int64_t least = pairs() ? most : 1;
    const bool fits = tokens.is_number_unsigned() && tokens.get<uint64_t>() >= static_cast<uint64_t>(least) &&
                      tokens.get<uint64_t>() <= static_cast<uint64_t>(most);
    if (!fits) {
      lines_.fail(pairs() ? fmt::format("tokens is {}; the prepared target of pair {} has {}, with its end",
                                        shortened(tokens.dump()), index, most)
                          : fmt::format("tokens is {}; expected 1 to {}", shortened(tokens.dump()), most));
    }
    predictions_.nll += value;
    predictions_.tokens += tokens.get<int64_t>();
  }

  const TextShape& shape_;
  const std::string file_;
  PredictionLines lines_;
  TextPredictions predictions_;
  int64_t first_line_ = 0;
  bool has_text_ = false, has_nll_ = false;
};

// Why the predictions lack what a metric needs; null where they have it.
const char* lack_of(Needs needs, const TextPredictions& predictions, bool references) {
  switch (needs) {
    case Needs::kTokens:
      return predictions.tokens == 0 ? "the predictions have no \"nll\" and \"tokens\"" : nullptr;
    case Needs::kTranslations:
      if (predictions.texts.empty()) return "the predictions have no \"text\"";
      return references ? nullptr : "made data have no references";
    case Needs::kLoss:
      return "predictions do not tell the loss of a model";
    case Needs::kLabel:
    case Needs::kScores:
      return "predictions of text have no classes";
    case Needs::kNumbers:
      return "predictions of text are no numbers";
  }
  return nullptr;
}

}  // namespace

TextPredictions read_text_predictions(const std::filesystem::path& file, const TextShape& shape) {
  return TextReader(file, shape).read();
}

PredictionMetrics evaluate(const TextPredictions& predictions, std::span<const std::string> references,
                           const std::vector<std::string>& metrics) {
  PredictionMetrics result;
  for (const std::string& name : metrics) {
    const Needs needs = needs_of(name);
    if (const char* lack = lack_of(needs, predictions, !references.empty()); lack != nullptr) {
      result.values[name] = nullptr;
      result.notes.push_back(fmt::format("{} is unknown: {}", name, lack));
      continue;
    }
    Outputs outputs;
    if (needs == Needs::kTokens) {
      outputs.nll_sum = predictions.nll;
      outputs.weight = predictions.tokens;
    } else {
      outputs.hypotheses = predictions.texts;
      outputs.references = references;
    }
    const auto metric = make_metric(name);
    metric->add(outputs);
    result.values[name] = metric->value();
  }
  return result;
}

}  // namespace mlbench::metrics
