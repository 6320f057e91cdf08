#include "mlbench/metrics/predictions.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/metrics/prediction_lines.h"

namespace mlbench::metrics {

namespace {

class Reader {
 public:
  Reader(const std::filesystem::path& file, const PredictionShape& shape)
      : lines_(file, shape.samples, fmt::format("the split's {} samples", shape.samples)) {
    predictions_.shape = shape;
  }

  Predictions read() {
    lines_.read([this](const Json& line, size_t sample) { take(line, sample); });
    lines_.check_complete(predictions_.shape.samples);
    return std::move(predictions_);
  }

 private:
  void take(const Json& line, size_t sample) {
    const PredictionShape& shape = predictions_.shape;
    const auto label = line.find("label");
    const auto scores = line.find("scores");
    if (label == line.end() && scores == line.end()) {
      lines_.fail(line.contains("text") || line.contains("nll")
                      ? "this task classifies samples: give \"label\" or \"scores\""
                      : "there is neither \"label\" nor \"scores\"");
    }
    if (label != line.end() && scores != line.end()) lines_.fail("give \"label\" or \"scores\", not both");
    const bool has_scores = scores != line.end();
    if (first_line_ == 0) {
      first_line_ = lines_.line();
      has_scores_ = has_scores;
      const auto samples = static_cast<size_t>(shape.samples);
      if (has_scores) {
        predictions_.scores.resize(samples * static_cast<size_t>(shape.outputs));
      } else {
        predictions_.labels.resize(samples);
      }
    }
    if (has_scores != has_scores_) {
      lines_.fail(fmt::format("there are {}, but {} in line {}: a file holds one or the other",
                              has_scores ? "scores" : "labels", has_scores_ ? "scores" : "labels", first_line_));
    }
    if (has_scores) {
      take_scores(*scores, sample);
    } else if (is_below(*label, shape.classes)) {
      predictions_.labels[sample] = label->get<int64_t>();
    } else {
      lines_.fail(fmt::format("label {} is none of the {} classes: 0 to {}", shortened(label->dump()), shape.classes,
                              shape.classes - 1));
    }
  }

  void take_scores(const Json& scores, size_t sample) {
    const auto outputs = static_cast<size_t>(predictions_.shape.outputs);
    const std::string expected =
        outputs == 1 ? "one number: the probability of class 1" : fmt::format("{} numbers", outputs);
    if (!scores.is_array())
      lines_.fail(fmt::format("scores are {}; expected a list of {}", shortened(scores.dump()), expected));
    if (scores.size() != outputs) lines_.fail(fmt::format("there are {} scores; expected {}", scores.size(), expected));
    for (size_t i = 0; i < outputs; ++i) {
      const double score = scores[i].is_number() ? scores[i].get<double>() : NAN;
      if (!(std::abs(score) <= std::numeric_limits<float>::max())) {
        lines_.fail(
            fmt::format("score {} is {}; expected a number that fits into float32", i, shortened(scores[i].dump())));
      }
      if (outputs == 1 && (score < 0 || score > 1)) {
        lines_.fail(fmt::format("score {} is no probability between 0 and 1", shortened(scores[i].dump())));
      }
      predictions_.scores[sample * outputs + i] = static_cast<float>(score);
    }
  }

  PredictionLines lines_;
  Predictions predictions_;
  int64_t first_line_ = 0;
  bool has_scores_ = false;
};

// Makes scores that hold no more than the labels.
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

// Why the predictions lack what a metric needs; null where they have it.
const char* lack_of(Needs needs, bool only_labels) {
  switch (needs) {
    case Needs::kLabel:
      return nullptr;
    case Needs::kScores:
      return only_labels ? "it needs scores, not labels alone" : nullptr;
    case Needs::kNumbers:
      return "predictions of classes are no numbers";
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
  return Reader(file, shape).read();
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
