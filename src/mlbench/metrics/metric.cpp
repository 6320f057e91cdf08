#include "mlbench/metrics/metric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <limits>

#include "mlbench/base/errors.h"

namespace mlbench::metrics {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// `Sums` numbers; the sample count stands first.
template <size_t Sums>
class SumMetric : public Metric {
 public:
  explicit SumMetric(std::string name) : name_(std::move(name)) {}
  const std::string& name() const final { return name_; }
  void reset() final { sums_ = {}; }
  std::span<double> sums() final { return sums_; }
  void add(const Outputs& outputs) final {
    MLBENCH_CHECK(outputs.classes >= 1, "outputs without classes");
    MLBENCH_CHECK(outputs.scores.size() == outputs.labels.size() * static_cast<size_t>(outputs.classes),
                  "scores and labels of different numbers of samples");
    sums_[0] += static_cast<double>(outputs.labels.size());
    accumulate(outputs);
  }
  double value() const final { return sums_[0] > 0 ? of_sums() : kNaN; }

 protected:
  virtual void accumulate(const Outputs& outputs) = 0;
  virtual double of_sums() const = 0;

  std::string name_;
  std::array<double, Sums> sums_{};
};

class Loss final : public SumMetric<2> {
 public:
  Loss() : SumMetric("loss") {}

 private:
  void accumulate(const Outputs& outputs) override { sums_[1] += outputs.loss_sum; }
  double of_sums() const override { return sums_[1] / sums_[0]; }
};

class TopK final : public SumMetric<2> {
 public:
  explicit TopK(int64_t k) : SumMetric(fmt::format("Prec@{}", k)), k_(k) {}

 private:
  void accumulate(const Outputs& outputs) override {
    const int64_t classes = std::max<int64_t>(outputs.classes, 2);  // one probability p stands for [1 - p, p]
    if (k_ >= classes) {
      throw UserError(fmt::format("metric '{}' needs more than {} classes, the task has {}", name_, k_, classes));
    }
    int64_t correct = 0;
    for (size_t i = 0; i < outputs.labels.size(); ++i) {
      const int64_t label = outputs.labels[i];
      MLBENCH_CHECK(label >= 0 && label < classes, fmt::format("label {} of {} classes", label, classes));
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

  // Of equal scores the first counts as the larger; a NaN is larger than all and never right.
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

// Both metrics of a binary task need one probability per sample.
void expect_binary(const Outputs& outputs, const std::string& name) {
  if (outputs.classes != 1) {
    throw UserError(fmt::format("metric '{}' is for tasks with one probability per sample; this one has {} classes",
                                name, outputs.classes));
  }
}

class F1Score final : public SumMetric<4> {
 public:
  F1Score() : SumMetric("F1-Score") {}

 private:
  void accumulate(const Outputs& outputs) override {
    expect_binary(outputs, name_);
    for (size_t i = 0; i < outputs.labels.size(); ++i) {
      const bool predicted = outputs.scores[i] >= 0.5F;
      const bool actual = outputs.labels[i] == 1;
      sums_[1] += predicted && actual ? 1 : 0;
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

class Dice final : public SumMetric<4> {
 public:
  Dice() : SumMetric("Dice Coefficient") {}

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

struct Row {
  const char* name;
  Needs needs;
  std::unique_ptr<Metric> (*make)();
};
constexpr std::array<Row, 5> kMetrics = {{
    {"loss", Needs::kLoss, []() -> std::unique_ptr<Metric> { return std::make_unique<Loss>(); }},
    {"Prec@1", Needs::kLabel, []() -> std::unique_ptr<Metric> { return std::make_unique<TopK>(1); }},
    {"Prec@5", Needs::kScores, []() -> std::unique_ptr<Metric> { return std::make_unique<TopK>(5); }},
    {"F1-Score", Needs::kLabel, []() -> std::unique_ptr<Metric> { return std::make_unique<F1Score>(); }},
    {"Dice Coefficient", Needs::kScores, []() -> std::unique_ptr<Metric> { return std::make_unique<Dice>(); }},
}};

const Row& find(const std::string& name) {
  for (const Row& row : kMetrics) {
    if (name == row.name) return row;
  }
  throw UserError(fmt::format("unknown metric '{}'; valid: {}", name, fmt::join(metric_names(), ", ")));
}

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Row& row : kMetrics) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Metric> make_metric(const std::string& name) { return find(name).make(); }

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) find(name);
}

Needs needs_of(const std::string& name) { return find(name).needs; }

}  // namespace mlbench::metrics
