#include "mlbench/spec/goal.h"

#include <cmath>
#include <utility>

namespace mlbench::spec {

std::optional<bool> higher_is_better(std::string_view metric) {
  static constexpr std::pair<std::string_view, bool> kDirections[] = {
      {"loss", false},        {"Mean Squared Error", false}, {"Prec@1", true},      {"Prec@5", true},
      {"F1-Score", true},     {"Dice Coefficient", true},    {"Perplexity", false}, {"BLEU", true},
      {"BLEU-intl-lc", true}, {"BLEU-none", true},           {"chrF2", true},  // these are metrics of metrics/
      {"BLEU-Score", true},                                                    // this is one of other programs
  };
  for (const auto& [name, higher] : kDirections) {
    if (name == metric) return higher;
  }
  return std::nullopt;
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
