#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <regex>

#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/to_number.h"
#include "mlbench/record/spool.h"
#include "mlbench/report/archive/derivation.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace {

using Time = std::chrono::system_clock::time_point;

// "80% Top 1 Validation Accuracy reached in 106.910 seconds, Compute: 53.0 seconds, ..."
struct OfficialText {
  spec::GoalSpec goal;
  double total_s = 0;
  std::map<std::string, double> parts;  // "Compute" ...
};

std::optional<OfficialText> parse_official(const std::string& text) {
  static const std::regex kAccuracy(R"(([0-9.]+)% Top ([0-9]+) (Validation|Training) Accuracy reached in (.*))");
  static const std::regex kOther(R"((Validation|Training) (.+) of ([0-9.]+) reached in (.*))");
  static const std::regex kTimes(R"(([0-9.]+) seconds((?:, [A-Z][-A-Za-z ]*: [-+0-9.e]+ seconds)*))");
  static const std::regex kPart(R"(, ([A-Z][-A-Za-z ]*): ([-+0-9.e]+) seconds)");
  const auto number_in = [](const std::string& digits) { return to_number<double>(digits).value_or(NAN); };
  if (text.size() > 1000) return std::nullopt;  // std::regex recurses
  OfficialText official;
  std::smatch match;
  std::string times;
  if (std::regex_match(text, match, kAccuracy)) {
    official.goal = {.metric = "Prec@" + match[2].str(),
                     .split = match[3] == "Training" ? spec::kTrainSplit : spec::kTestSplit,
                     .target = number_in(match[1])};
    times = match[4];
  } else if (std::regex_match(text, match, kOther)) {
    official.goal = {.metric = match[2],
                     .split = match[1] == "Training" ? spec::kTrainSplit : spec::kTestSplit,
                     .target = number_in(match[3]),
                     .higher_is_better = spec::higher_is_better(match[2].str()).value_or(true)};
    times = match[4];
  } else {
    return std::nullopt;
  }
  if (!std::regex_match(times, match, kTimes)) return std::nullopt;
  official.total_s = number_in(match[1]);
  if (std::isnan(official.goal.target) || std::isnan(official.total_s)) return std::nullopt;
  const std::string parts = match[2];
  for (std::sregex_iterator part(parts.begin(), parts.end(), kPart), end; part != end; ++part) {
    official.parts[(*part)[1]] = number_in((*part)[2]);
  }
  return official;
}

// The published goals that the archive's run may have had. Where tasks 1a and 2a both fit, an F1 score means 2a.
std::vector<const spec::PublishedGoal*> candidates(const ArchiveEvents& events,
                                                   const std::optional<OfficialText>& claim) {
  const bool has_f1 = events.has("val_global_F1-Score") || events.has("val_F1-Score");
  std::vector<const spec::PublishedGoal*> found;
  for (const spec::PublishedGoal& known : spec::published_goals()) {
    if (claim) {
      const double target = claim->goal.target;
      if (claim->goal.metric != known.goal.metric) continue;
      if (target != known.goal.target && target != known.goal.light_target) continue;
    } else if (!events.has(series_of(known.goal))) {
      continue;
    }
    found.push_back(&known);
  }
  if (found.size() > 1 && found.front()->goal.metric == "Prec@1") {
    std::erase_if(found, [&](const spec::PublishedGoal* known) { return (known->task == "2a") != has_f1; });
  }
  return found;
}

struct Sums {
  double total_s = 0;
  Json steps_s = Json::object();
  size_t epochs = 0;
  bool own = false;  // these are the run's own totals, not sums over epochs
};

Sums sum_epochs(const ArchiveEvents& events, size_t epochs) {
  Sums sums;
  sums.epochs = epochs;
  const auto sum = [&](const std::string& name) {
    const std::vector<double> values = events.seconds(name);
    if (values.size() < epochs) {
      ArchiveEvents::fail(ArchiveEvents::member_of(name),
                          fmt::format("{} epochs; {} has {}", values.size(), kEpochTime, epochs));
    }
    double seconds = 0;
    for (size_t i = 0; i < epochs; ++i) seconds += values[i];
    return seconds;
  };
  sums.total_s = sum(kEpochTime);
  for (const std::string_view kind : record::kStepKindNames) {
    if (const std::string name(kind); events.has(name)) sums.steps_s[name] = sum(name);
  }
  return sums;
}

// The run's own totals, for a goal that was met in the middle of an epoch. Throws UserError where there is no total.
Sums own_totals(const ArchiveEvents& events, size_t epochs) {
  Sums sums;
  sums.epochs = epochs;
  sums.own = true;
  const auto total = events.total(kTotalTime);
  if (!total) {
    ArchiveEvents::fail(
        ArchiveEvents::member_of(kTotalTime),
        "there is none, but the goal was met in the middle of an epoch, so that no other event has its time");
  }
  sums.total_s = *total;
  for (const std::string_view kind : record::kStepKindNames) {
    if (const auto value = events.total(fmt::format("global_cum_{}", kind))) sums.steps_s[std::string(kind)] = *value;
  }
  return sums;
}

bool any_between(const std::vector<ArchivePoint>& points, Time after, Time until) {
  return std::any_of(points.begin(), points.end(),
                     [&](const ArchivePoint& point) { return point.date > after && point.date <= until; });
}

// Sums over the epochs that ended by `met_at`, or over all epochs without it; the run's own totals where `met_at` lies
// in the middle of an epoch.
Sums sums_until(const ArchiveEvents& events, std::optional<Time> met_at) {
  const std::vector<ArchivePoint>& points = events.points(kEpochTime);
  if (!met_at) return sum_epochs(events, points.size());
  const auto epochs = static_cast<size_t>(
      std::count_if(points.begin(), points.end(), [&](const ArchivePoint& point) { return point.date <= *met_at; }));
  if (epochs == 0 || any_between(events.points("train_loss"), points[epochs - 1].date, *met_at)) {
    return own_totals(events, epochs);
  }
  return sum_epochs(events, epochs);
}

// Compares the times in the sentence of official_result.txt with the seconds of a result.
void check_sentence(const OfficialText& claim, const Json& seconds, Claims& claims) {
  claims.near("official_result.txt, total", claim.total_s, seconds["total"].get<double>(), 1e-3);
  const std::pair<const char*, const char*> parts[] = {{"Compute", "compute"},
                                                       {"Communication", "communication"},
                                                       {"Metrics Computation", "metrics"},
                                                       {"Pre-processing", "preprocessing"}};
  for (const auto& [name, key] : parts) {
    const auto part = claim.parts.find(name);
    claims.near(std::string("official_result.txt, ") + name, part == claim.parts.end() ? 0 : part->second,
                seconds[key].get<double>(), 1e-6);
  }
}

// Compares the run's own totals with sums over all of its epochs.
void check_totals(const ArchiveEvents& events, const Sums& sums, Claims& claims) {
  if (const auto total = events.total(kTotalTime)) claims.near(kTotalTime, *total, sums.total_s, 1e-6);
  for (const auto& [kind, value] : sums.steps_s.items()) {
    if (const auto total = events.total("global_cum_" + kind)) {
      claims.near("global_cum_" + kind, *total, value.get<double>(), 1e-6);
    }
  }
}

}  // namespace

Json derive_dashboard(const ArchiveEvents& events) {
  if (!events.has(kEpochTime)) {
    throw UserError(fmt::format("the archive has no '{}': without it no time can be derived; its metrics are {}",
                                ArchiveEvents::member_of(kEpochTime), events.names()));
  }
  Claims claims;
  Json notes = Json::array();
  std::optional<OfficialText> claim;
  if (events.claim()) {
    claim = parse_official(*events.claim());
    if (!claim) notes.push_back("official_result.txt is no sentence that MLBench writes");
  }
  const auto known = candidates(events, claim);

  std::optional<spec::GoalSpec> goal;
  if (claim) {
    goal = claim->goal;
  } else if (!known.empty()) {
    // Nothing is claimed, so the strictest goal is taken: what meets it has surely reached the goal.
    goal = known.back()->goal;
  }
  const std::vector<double> values = goal ? events.numbers(series_of(*goal)) : std::vector<double>();
  const Outcome outcome = goal ? outcome_of(*goal, values, values.size()) : Outcome();
  if (goal && values.empty())
    notes.push_back(fmt::format("there is no '{}'", ArchiveEvents::member_of(series_of(*goal))));

  std::optional<Time> met_at;
  if (outcome.met) {
    met_at = events.points(series_of(*goal))[*outcome.met].date;
    if (*outcome.met + 1 < values.size()) {
      notes.push_back(
          fmt::format("{} more evaluations after the goal was met are left out", values.size() - *outcome.met - 1));
    }
  }
  const Sums sums = sums_until(events, met_at);
  if (sums.own) notes.push_back("the goal was met in the middle of an epoch: the times are the run's own totals");
  const std::string official = official_result(goal, outcome.met.has_value(), sums.total_s, sums.steps_s);

  const Json seconds = split_json(sums.total_s, sums.steps_s, true, std::nullopt);
  if (claim && !official.empty()) {
    check_sentence(*claim, seconds, claims);
  } else if (events.claim().has_value() || !official.empty()) {
    claims.differ("official_result.txt", events.claim().value_or("nothing"),
                  !official.empty() ? official
                  : outcome.value   ? fmt::format("the best {} is {}", goal->metric, *outcome.value)
                                    : "no evaluation");
  }
  if (!sums.own && outcome.met && sums.epochs == events.points(kEpochTime).size()) check_totals(events, sums, claims);

  std::vector<std::string> tasks;
  for (const spec::PublishedGoal* one : known) tasks.push_back(one->task);
  const bool light = claim && !known.empty() && claim->goal.target == known.front()->goal.light_target;
  return {{"format", "dashboard"},
          {"name", nullptr},
          {"task", tasks.empty() ? Json(nullptr) : Json(fmt::format("{}", fmt::join(tasks, " or ")))},
          {"light", claim && !known.empty() ? Json(light) : Json(nullptr)},
          {"workers", events.ranks_with(kEpochTime).size()},
          {"goal", goal_json(goal, outcome)},
          {"official_result", text_or_null(official)},
          {"claimed", events.claim() ? Json(*events.claim()) : Json(nullptr)},
          {"seconds", seconds},
          {"steps_s", sums.steps_s},
          {"source", sums.own ? "totals" : "epochs"},
          {"epochs", sums.epochs},
          {"evaluations", values.size()},
          {"differences", claims.differences()},
          {"notes", notes}};
}

}  // namespace mlbench::report
