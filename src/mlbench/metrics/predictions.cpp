#include "mlbench/metrics/predictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>

#include "mlbench/base/input.h"
#include "mlbench/base/system_error.h"
#include "mlbench/metrics/metric.h"

namespace mlbench::metrics {

namespace {

constexpr size_t kMostNamed = 5;  // samples that an error names

class Reader {
 public:
  Reader(std::string file, const PredictionShape& shape)
      : file_(std::move(file)), line_of_(static_cast<size_t>(shape.samples), 0) {
    predictions_.shape = shape;
  }

  Predictions read(std::istream& in) {
    std::vector<char> buffer(inputs::kPredictionLine.most_bytes + 1);
    while (in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
      ++line_;
      if (in.fail()) fail(fmt::format("the line is longer than {} bytes", inputs::kPredictionLine.most_bytes));
      const std::string_view text(buffer.data());
      if (text.find_first_not_of(" \t\r") != std::string_view::npos)
        take(try_parse_json(text, inputs::kPredictionLine).value_or(nullptr), text);
    }
    if (in.bad()) throw_system_error(fmt::format("cannot read {}", file_), errno);
    check_complete();
    return std::move(predictions_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw UserError(fmt::format("{}:{}: {}", file_, line_, text));
  }

  static std::string shortened(std::string_view text) {
    constexpr size_t kMost = 60;
    return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
  }

  static bool is_below(const Json& value, int64_t end) {
    return value.is_number_integer() && (value.is_number_unsigned() || value.get<int64_t>() >= 0) &&
           value.get<uint64_t>() < static_cast<uint64_t>(end);
  }

  void take(const Json& line, std::string_view text) {
    const PredictionShape& shape = predictions_.shape;
    if (!line.is_object()) {
      fail(fmt::format("'{}' is no JSON object such as {{\"index\": 0, \"label\": 1}}", shortened(text)));
    }
    const auto index = line.find("index");
    if (index == line.end()) fail("there is no \"index\"");
    if (!is_below(*index, shape.samples)) {
      fail(fmt::format("index {} is not among the split's {} samples: 0 to {}", shortened(index->dump()), shape.samples,
                       shape.samples - 1));
    }
    const auto sample = index->get<size_t>();
    if (line_of_[sample] != 0) {
      fail(fmt::format("index {} was given before, in line {}", sample, line_of_[sample]));
    }
    line_of_[sample] = line_;

    const auto label = line.find("label");
    const auto scores = line.find("scores");
    if (label == line.end() && scores == line.end()) {
      fail(line.contains("text")
               ? "\"text\" is for tasks that translate; this one classifies: give \"label\" or \"scores\""
               : "there is neither \"label\" nor \"scores\"");
    }
    if (label != line.end() && scores != line.end()) fail("give \"label\" or \"scores\", not both");
    const bool has_scores = scores != line.end();
    if (first_line_ == 0) {
      first_line_ = line_;
      has_scores_ = has_scores;
      const auto samples = static_cast<size_t>(shape.samples);
      if (has_scores) {
        predictions_.scores.resize(samples * static_cast<size_t>(shape.outputs));
      } else {
        predictions_.labels.resize(samples);
      }
    }
    if (has_scores != has_scores_) {
      fail(fmt::format("there are {}, but {} in line {}: a file holds one or the other",
                       has_scores ? "scores" : "labels", has_scores_ ? "scores" : "labels", first_line_));
    }
    if (has_scores) {
      take_scores(*scores, sample);
    } else if (is_below(*label, shape.classes)) {
      predictions_.labels[sample] = label->get<int64_t>();
    } else {
      fail(fmt::format("label {} is none of the {} classes: 0 to {}", shortened(label->dump()), shape.classes,
                       shape.classes - 1));
    }
  }

  void take_scores(const Json& scores, size_t sample) {
    const auto outputs = static_cast<size_t>(predictions_.shape.outputs);
    const std::string expected =
        outputs == 1 ? "one number: the probability of class 1" : fmt::format("{} numbers", outputs);
    if (!scores.is_array())
      fail(fmt::format("scores are {}; expected a list of {}", shortened(scores.dump()), expected));
    if (scores.size() != outputs) fail(fmt::format("there are {} scores; expected {}", scores.size(), expected));
    for (size_t i = 0; i < outputs; ++i) {
      const double score = scores[i].is_number() ? scores[i].get<double>() : NAN;
      if (!(std::abs(score) <= std::numeric_limits<float>::max())) {
        fail(fmt::format("score {} is {}; expected a number that fits into float32", i, shortened(scores[i].dump())));
      }
      if (outputs == 1 && (score < 0 || score > 1)) {
        fail(fmt::format("score {} is no probability between 0 and 1", shortened(scores[i].dump())));
      }
      predictions_.scores[sample * outputs + i] = static_cast<float>(score);
    }
  }

  void check_complete() const {
    const auto missing = std::count(line_of_.begin(), line_of_.end(), 0);
    if (missing == 0) return;
    std::vector<size_t> first;
    for (size_t i = 0; i < line_of_.size() && first.size() < kMostNamed; ++i) {
      if (line_of_[i] == 0) first.push_back(i);
    }
    throw UserError(fmt::format("{}: {} of the split's {} samples have no prediction: {}{}", file_, missing,
                                line_of_.size(), fmt::join(first, ", "),
                                static_cast<size_t>(missing) > first.size() ? ", ..." : ""));
  }

  std::string file_;
  std::vector<int64_t> line_of_;  // 0: no prediction yet
  Predictions predictions_;
  int64_t line_ = 0;
  int64_t first_line_ = 0;
  bool has_scores_ = false;
};

// Scores that say no more than the label.
std::vector<float> scores_of(const Predictions& predictions) {
  const auto outputs = static_cast<size_t>(predictions.shape.outputs);
  std::vector<float> scores(predictions.labels.size() * outputs, 0);
  for (size_t i = 0; i < predictions.labels.size(); ++i) {
    const auto label = static_cast<size_t>(predictions.labels[i]);
    if (outputs == 1) {
      scores[i] = static_cast<float>(label);
    } else {
      scores[i * outputs + label] = 1;
    }
  }
  return scores;
}

// Why predictions do not tell what a metric needs; null: they do.
const char* lack_of(Needs needs, bool only_labels) {
  switch (needs) {
    case Needs::kLabel:
      return nullptr;
    case Needs::kScores:
      return only_labels ? "it needs scores, not labels alone" : nullptr;
    case Needs::kLoss:
      return "predictions do not tell the loss of a model";
    case Needs::kTokens:
      return "predictions of classes do not tell the likelihood of tokens";
    case Needs::kTranslations:
      return "predictions of classes are no translations";
  }
  return nullptr;
}

}  // namespace

Predictions read_predictions(const std::filesystem::path& file, const PredictionShape& shape) {
  MLBENCH_CHECK(shape.outputs == shape.classes || (shape.outputs == 1 && shape.classes == 2),
                fmt::format("{} outputs for {} classes", shape.outputs, shape.classes));
  std::ifstream in(file);
  if (!in) throw_system_error(fmt::format("cannot read {}", file.string()), errno);
  return Reader(file.string(), shape).read(in);
}

PredictionMetrics evaluate(const Predictions& predictions, std::span<const int64_t> labels,
                           const std::vector<std::string>& metrics) {
  const bool only_labels = predictions.scores.empty();
  const std::vector<float> made = only_labels ? scores_of(predictions) : std::vector<float>();
  const Outputs outputs{only_labels ? made : predictions.scores, labels, predictions.shape.outputs, 0};
  PredictionMetrics result;
  for (const std::string& name : metrics) {
    if (const char* lack = lack_of(needs_of(name), only_labels); lack != nullptr) {
      result.values[name] = nullptr;
      result.notes.push_back(fmt::format("{} is unknown: {}", name, lack));
      continue;
    }
    const auto metric = make_metric(name);
    metric->add(outputs);
    result.values[name] = metric->value();
  }
  return result;
}

}  // namespace mlbench::metrics
