#include "mlbench/metrics/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/metrics/text_metric.h"
#include "mlbench/spec/loss.h"
#include "mlbench/spec/split.h"

namespace mlbench::metrics {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The number of classes; one probability p of class 1 stands for the scores [1 - p, p].
int64_t classes_of(const Outputs& outputs) { return std::max<int64_t>(outputs.classes, 2); }

void check_scores(const Outputs& outputs) {
  MLBENCH_CHECK(outputs.classes >= 1, "outputs without classes");
  MLBENCH_CHECK(outputs.scores.size() == outputs.labels.size() * static_cast<size_t>(outputs.classes),
                "scores and labels of different numbers of samples");
}

bool of_tokens(const Outputs& outputs) { return outputs.classes == 0 && outputs.weight > 0; }
bool of_texts(const Outputs& outputs) { return !of_tokens(outputs) && !outputs.hypotheses.empty(); }

// A metric of `Sums` numbers, the first of which is the count of samples or tokens.
template <size_t Sums>
class SumMetric : public Metric {
 public:
  explicit SumMetric(std::string name) : name_(std::move(name)) {}
  const std::string& name() const final { return name_; }
  void reset() final { sums_ = {}; }
  std::span<double> sums() final { return sums_; }
  double value() const final { return sums_[0] > 0 ? of_sums() : kNaN; }

 protected:
  virtual double of_sums() const = 0;

  std::string name_;
  std::array<double, Sums> sums_{};
};

class Loss final : public SumMetric<2> {
 public:
  Loss() : SumMetric("loss") {}
  void add(const Outputs& outputs) override {
    if (of_texts(outputs)) return;
    if (!of_tokens(outputs)) check_scores(outputs);
    sums_[0] += outputs.weight > 0 ? static_cast<double>(outputs.weight) : static_cast<double>(outputs.labels.size());
    sums_[1] += outputs.loss_sum;
  }

 private:
  double of_sums() const override { return sums_[1] / sums_[0]; }
};

class Perplexity final : public SumMetric<2> {
 public:
  Perplexity() : SumMetric("Perplexity") {}
  void add(const Outputs& outputs) override {
    if (of_texts(outputs)) return;
    if (!of_tokens(outputs)) {
      throw UserError(
          fmt::format("metric '{}' is for tasks whose loss is over tokens; this one classifies samples", name_));
    }
    sums_[0] += static_cast<double>(outputs.weight);
    sums_[1] += outputs.nll_sum;
  }

 private:
  double of_sums() const override { return std::exp(sums_[1] / sums_[0]); }
};

class MeanSquaredError final : public SumMetric<2> {
 public:
  MeanSquaredError() : SumMetric("Mean Squared Error") {}
  void add(const Outputs& outputs) override {
    if (of_texts(outputs)) return;
    if (outputs.classes != 1) {
      throw UserError(fmt::format("metric '{}' takes one number per sample, the task has {} outputs for each", name_,
                                  outputs.classes));
    }
    check_scores(outputs);
    sums_[0] += static_cast<double>(outputs.labels.size());
    for (size_t i = 0; i < outputs.labels.size(); ++i) {
      const double difference = outputs.scores[i] - static_cast<double>(outputs.labels[i]);
      sums_[1] += difference * difference;
    }
  }

 private:
  double of_sums() const override { return sums_[1] / sums_[0]; }
};

// Counts samples, each with scores and a label.
template <size_t Sums>
class ScoreMetric : public SumMetric<Sums> {
 public:
  using SumMetric<Sums>::SumMetric;
  void add(const Outputs& outputs) final {
    if (of_tokens(outputs)) {
      throw UserError(fmt::format("metric '{}' is for tasks that classify samples; the loss of this one is over tokens",
                                  this->name()));
    }
    if (of_texts(outputs)) return;
    check_scores(outputs);
    for (const int64_t label : outputs.labels) {
      MLBENCH_CHECK(label >= 0 && label < classes_of(outputs),
                    fmt::format("label {} of {} classes", label, classes_of(outputs)));
    }
    this->sums_[0] += static_cast<double>(outputs.labels.size());
    accumulate(outputs);
  }

 protected:
  virtual void accumulate(const Outputs& outputs) = 0;
};

class TopK final : public ScoreMetric<2> {
 public:
  explicit TopK(int64_t k) : ScoreMetric(fmt::format("Prec@{}", k)), k_(k) {}

 private:
  void accumulate(const Outputs& outputs) override {
    const int64_t classes = classes_of(outputs);
    if (k_ >= classes) {
      throw UserError(fmt::format("metric '{}' needs more than {} classes, the task has {}", name_, k_, classes));
    }
    int64_t correct = 0;
    for (size_t i = 0; i < outputs.labels.size(); ++i) {
      const int64_t label = outputs.labels[i];
      if (outputs.classes == 1) {
        const float p = outputs.scores[i];
        const std::array<float, 2> both = {1 - p, p};
        correct += in_top_k(both, static_cast<size_t>(label));
      } else {
        const auto width = static_cast<size_t>(classes);
        correct += in_top_k(outputs.scores.subspan(i * width, width), static_cast<size_t>(label));
      }
    }
    sums_[1] += static_cast<double>(correct);
  }

  // The first of equal scores counts as the larger; a NaN is larger than all and never right.
  bool in_top_k(std::span<const float> scores, size_t label) const {
    const float own = scores[label];
    if (std::isnan(own)) return false;
    int64_t before = 0;
    for (size_t c = 0; c < scores.size(); ++c) {
      before += !(scores[c] <= own) || (scores[c] == own && c < label);
    }
    return before < k_;
  }

  double of_sums() const override { return 100 * sums_[1] / sums_[0]; }
  int64_t k_;
};

// Throws unless there is one probability per sample, which both metrics of a binary task need.
void expect_binary(const Outputs& outputs, const std::string& name) {
  if (outputs.classes != 1) {
    throw UserError(fmt::format("metric '{}' is for tasks with one probability per sample; this one has {} classes",
                                name, outputs.classes));
  }
}

class F1Score final : public ScoreMetric<4> {
 public:
  F1Score() : ScoreMetric("F1-Score") {}

 private:
  void accumulate(const Outputs& outputs) override {
    expect_binary(outputs, name_);
    for (size_t i = 0; i < outputs.labels.size(); ++i) {
      const float score = outputs.scores[i];
      const bool predicted = !(score < 0.5F);  // a NaN counts as class 1
      const bool actual = outputs.labels[i] == 1;
      sums_[1] += score >= 0.5F && actual ? 1 : 0;
      sums_[2] += predicted ? 1 : 0;
      sums_[3] += actual ? 1 : 0;
    }
  }
  double of_sums() const override {
    constexpr double kEpsilon = 1e-9;
    const double precision = sums_[1] / (sums_[2] + kEpsilon);
    const double recall = sums_[1] / (sums_[3] + kEpsilon);
    return 2 * precision * recall / (precision + recall + kEpsilon);
  }
};

class Dice final : public ScoreMetric<4> {
 public:
  Dice() : ScoreMetric("Dice Coefficient") {}

 private:
  void accumulate(const Outputs& outputs) override {
    expect_binary(outputs, name_);
    for (size_t i = 0; i < outputs.labels.size(); ++i) {
      const double p = outputs.scores[i];
      const auto actual = static_cast<double>(outputs.labels[i]);
      sums_[1] += p * actual;
      sums_[2] += p;
      sums_[3] += actual;
    }
  }
  double of_sums() const override {
    constexpr double kEpsilon = 1e-4;
    return (2 * sums_[1] + kEpsilon) / (sums_[2] + sums_[3] + kEpsilon);
  }
};

// A metric of texts over the corpus. Before the metric's own sums stands the number of sentences, which says whether
// there were any.
class CorpusMetric final : public Metric {
 public:
  CorpusMetric(std::string name, const std::string& row, const TextMetricOptions& options)
      : name_(std::move(name)), metric_(make_text_metric(row, options)), sums_(1 + metric_->number_of_sums()) {}
  const std::string& name() const override { return name_; }
  void add(const Outputs& outputs) override {
    MLBENCH_CHECK(outputs.hypotheses.size() == outputs.references.size(), "translations without references");
    for (size_t i = 0; i < outputs.hypotheses.size(); ++i) {
      metric_->add(outputs.hypotheses[i], outputs.references.subspan(i, 1), std::span(sums_).subspan(1));
      ++sums_[0];
    }
  }
  double value() const override { return sums_[0] > 0 ? metric_->score(std::span(sums_).subspan(1)) : kNaN; }
  void reset() override { std::ranges::fill(sums_, 0.0); }
  std::span<double> sums() override { return sums_; }

 private:
  std::string name_;
  std::unique_ptr<TextMetric> metric_;
  std::vector<double> sums_;
};

struct Row {
  const char* name;
  Needs needs;
  std::unique_ptr<Metric> (*make)();
};
constexpr std::array<Row, 11> kMetrics = {{
    {"loss", Needs::kLoss, []() -> std::unique_ptr<Metric> { return std::make_unique<Loss>(); }},
    {"Prec@1", Needs::kLabel, []() -> std::unique_ptr<Metric> { return std::make_unique<TopK>(1); }},
    {"Prec@5", Needs::kScores, []() -> std::unique_ptr<Metric> { return std::make_unique<TopK>(5); }},
    {"F1-Score", Needs::kLabel, []() -> std::unique_ptr<Metric> { return std::make_unique<F1Score>(); }},
    {"Dice Coefficient", Needs::kScores, []() -> std::unique_ptr<Metric> { return std::make_unique<Dice>(); }},
    {"Mean Squared Error", Needs::kNumbers,
     []() -> std::unique_ptr<Metric> { return std::make_unique<MeanSquaredError>(); }},
    {"Perplexity", Needs::kTokens, []() -> std::unique_ptr<Metric> { return std::make_unique<Perplexity>(); }},
    {"BLEU", Needs::kTranslations,
     []() -> std::unique_ptr<Metric> { return std::make_unique<CorpusMetric>("BLEU", "bleu", TextMetricOptions{}); }},
    {"BLEU-intl-lc", Needs::kTranslations,
     []() -> std::unique_ptr<Metric> {
       TextMetricOptions options;
       options.lowercase = true;
       options.tokenizer = Tokenizer::kIntl;
       return std::make_unique<CorpusMetric>("BLEU-intl-lc", "bleu", options);
     }},
    {"BLEU-none", Needs::kTranslations,
     []() -> std::unique_ptr<Metric> {
       TextMetricOptions options;
       options.tokenizer = Tokenizer::kNone;
       return std::make_unique<CorpusMetric>("BLEU-none", "bleu", options);
     }},
    {"chrF2", Needs::kTranslations,
     []() -> std::unique_ptr<Metric> { return std::make_unique<CorpusMetric>("chrF2", "chrf", TextMetricOptions{}); }},
}};

const Row& find(const std::string& name) { return row_named(kMetrics, "metric", name); }

}  // namespace

std::vector<std::string> metric_names() { return names_of(kMetrics); }

std::unique_ptr<Metric> make_metric(const std::string& name) { return find(name).make(); }

void check_metrics(const spec::TaskSpec& task) {
  const spec::LossKind loss = spec::loss_kind(task.loss);
  for (const std::string& name : task.evaluation.metrics) {
    const Needs needs = needs_of(name);
    if (needs == Needs::kTokens && !loss.over_tokens) {
      throw UserError(fmt::format("metric '{}' is for a loss over tokens, and 'loss' is \"{}\"", name, task.loss));
    }
    if ((needs == Needs::kLabel || needs == Needs::kScores) && !loss.classifies) {
      throw UserError(
          fmt::format("metric '{}' is for a loss that classifies samples, and 'loss' is \"{}\"", name, task.loss));
    }
    if (needs == Needs::kNumbers && (loss.classifies || loss.over_tokens)) {
      throw UserError(fmt::format("metric '{}' is for a loss of numbers, and 'loss' is \"{}\"", name, task.loss));
    }
    if (needs != Needs::kTranslations) continue;
    if (task.decoding.beam == 0) {
      throw UserError(
          fmt::format("metric '{}' is of translations, and 'decoding.beam' is 0; expected a table [decoding]", name));
    }
    if (task.goal.metric == name && task.goal.split != spec::kTestSplit) {
      throw UserError(fmt::format("metric '{}' is of translations: 'goal.split' is \"{}\"; expected \"{}\"", name,
                                  task.goal.split, spec::kTestSplit));
    }
  }
}

Needs needs_of(const std::string& name) { return find(name).needs; }

std::vector<std::string> of_translations(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [](const std::string& name) { return needs_of(name) == Needs::kTranslations; });
  return found;
}

std::vector<std::string> without_translations(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [](const std::string& name) { return needs_of(name) != Needs::kTranslations; });
  return found;
}

}  // namespace mlbench::metrics
