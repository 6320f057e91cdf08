#include "mlbench/spec/goal.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace mlbench::spec {

namespace {

struct KnownMetric {
  std::string_view name;
  bool higher_is_better;
  double greatest = 0;  // the least is 0; 0: there is no greatest value
};

constexpr KnownMetric kMetrics[] = {
    {"loss", false},           {"Mean Squared Error", false}, {"Prec@1", true, 100},
    {"Prec@5", true, 100},     {"F1-Score", true, 1},         {"Dice Coefficient", true, 1},
    {"Perplexity", false},     {"BLEU", true, 100},           {"BLEU-intl-lc", true, 100},
    {"BLEU-none", true, 100},  {"chrF2", true, 100},  // these are metrics of metrics/
    {"BLEU-Score", true, 100},                        // this is one of other programs
};

const KnownMetric* known_metric(std::string_view name) {
  const auto* found = std::ranges::find(kMetrics, name, &KnownMetric::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

}  // namespace

std::optional<bool> higher_is_better(std::string_view metric) {
  const KnownMetric* known = known_metric(metric);
  return known != nullptr ? std::optional(known->higher_is_better) : std::nullopt;
}

std::optional<MetricBounds> bounds_of(std::string_view metric) {
  const KnownMetric* known = known_metric(metric);
  if (known == nullptr || known->greatest == 0) return std::nullopt;
  return MetricBounds{0, known->greatest};
}

double goal_target(const GoalSpec& goal, bool light) { return light ? goal.light_target : goal.target; }

bool goal_met(const GoalSpec& goal, bool light, double value) {
  const double target = goal_target(goal, light);
  return std::isfinite(value) && (goal.higher_is_better ? value >= target : value <= target);
}

bool is_better(const GoalSpec& goal, double value, std::optional<double> best) {
  if (!std::isfinite(value)) return false;
  return !best || (goal.higher_is_better ? value > *best : value < *best);
}

const std::vector<PublishedGoal>& published_goals() {
  static const std::vector<PublishedGoal> kGoals = {
      {"1a", {"Prec@1", kTestSplit, 80, 70, true}},      {"2a", {"Prec@1", kTestSplit, 89, 80, true}},
      {"3a", {"Perplexity", kTestSplit, 70, 90, false}}, {"4a", {"BLEU-Score", kTestSplit, 24, 20, true}},
      {"4b", {"BLEU-Score", kTestSplit, 25, 20, true}},
  };
  return kGoals;
}

}  // namespace mlbench::spec
