#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/spool.h"
#include "mlbench/report/archive/derivation.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/split.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {

namespace {

using record::Record;

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::optional<spec::GoalSpec> goal_of_record(const Record& record) {
  if (!record.goal || !record.goal->target || record.goal->metric.empty()) return std::nullopt;
  const double target = *record.goal->target;
  spec::GoalSpec goal{record.goal->metric, record.goal->split, target, target};
  if (!record.goal->higher_is_better) {
    ArchiveEvents::fail("run.json",
                        fmt::format("goal.higher_is_better is missing, so which values of '{}' are better is "
                                    "not known: use the mlbench that wrote it",
                                    goal.metric));
  }
  goal.higher_is_better = *record.goal->higher_is_better;
  return goal;
}

// Compares the record's goal with that of this program's task of the same name, where the run was made with that task.
void check_against_task(const Record& record, const std::optional<spec::GoalSpec>& goal, Claims& claims, Json& notes) {
  std::optional<spec::FrozenTask> frozen;
  try {
    frozen = spec::find_task(record.task, record.rules, record.variant, {});
  } catch (const UserError&) {
    // The run's task file is a user's own, or one of a later version.
  }
  if (!frozen || frozen->hash != record.task_hash) {
    notes.push_back(
        fmt::format("the task '{}' is not one of this program's: its goal is what run.json says", record.task));
    return;
  }
  if (!goal || (record.overrides && !record.overrides->empty())) return;
  const spec::GoalSpec& official = frozen->task.goal;
  claims.equal("run.json goal.metric", goal->metric, official.metric);
  claims.equal("run.json goal.split", goal->split, official.split);
  claims.equal("run.json goal.target", std::optional(goal->target), spec::goal_target(official, record.limits.light));
}

// How many of the goal's values can meet the goal: all but the run's last where a limit brought that evaluation about.
size_t judged_values(const Record& record, const spec::GoalSpec& goal, size_t values) {
  const bool at_limit = goal.split == spec::kTestSplit && ended_at_limit(record);
  return at_limit && values > 0 ? values - 1 : values;
}

// Every value in run.json must be among the events, in the same order. The events must have no further values, unless
// the run was `resumed` and repeated some evaluations.
void check_evaluations(const Record& record, const ArchiveEvents& events, const std::optional<spec::GoalSpec>& goal,
                       bool resumed, Claims& claims) {
  std::map<std::string, std::vector<double>> claimed;
  if (goal && goal->split == spec::kTestSplit) claimed[goal->metric];  // also when run.json shows none
  for (const record::Evaluation& evaluation : record.evaluations) {
    if (evaluation.split != spec::kTestSplit) continue;
    for (const auto& [name, value] : evaluation.metrics) claimed[name].push_back(value);
  }
  for (const auto& [name, values] : claimed) {
    const std::vector<double> found =
        events.numbers(record::legacy_name_of({spec::kTestSplit, name, record::kAllRanks}).name);
    auto from = found.begin();
    const bool in_order = std::all_of(values.begin(), values.end(), [&](double value) {
      from = std::find_if(from, found.end(),
                          [&](double one) { return one == value || (!std::isfinite(value) && !std::isfinite(one)); });
      return from != found.end() && (++from, true);
    });
    if (!in_order || (!resumed && found.size() != values.size())) {
      claims.differ("run.json evaluations, " + name,
                    values.empty() ? "nothing" : fmt::format("{}", fmt::join(values, " ")),
                    found.empty() ? "nothing" : fmt::format("{}", fmt::join(found, " ")));
    }
  }
}

}  // namespace

Json derive_mlbench(const ArchiveEvents& events) {
  const Record& record = *events.record();
  if (record::is_active(record)) {
    throw UserError(fmt::format("the archive was made while run '{}' was {}: download it again when it has ended",
                                record.name, record.state));
  }
  Claims claims;
  Json notes = Json::array();
  const bool resumed = record.segments.size() > 1;

  Json steps_s = Json::object();
  int64_t train_ns = 0, legacy_ns = 0;
  for (const std::string_view kind : record::kStepKindNames) {
    int64_t sum = 0;
    for (const double value : events.seconds(std::string(kind))) {
      sum += nanoseconds(value);
      if (to_seconds(sum) >= kMostSeconds) {
        ArchiveEvents::fail(ArchiveEvents::member_of(std::string(kind)),
                            fmt::format("its sum is above {:g} seconds", kMostSeconds));
      }
    }
    steps_s[std::string(kind)] = to_seconds(sum);
    train_ns += sum;
    if (kind != "batch_load" && kind != "checkpoint") legacy_ns += sum;
  }
  const double train_s = to_seconds(train_ns), legacy_s = to_seconds(legacy_ns);

  const std::optional<spec::GoalSpec> goal = goal_of_record(record);
  const std::vector<double> values = goal ? events.numbers(series_of(*goal)) : std::vector<double>();
  const Outcome outcome = goal ? outcome_of(*goal, values, judged_values(record, *goal, values.size())) : Outcome();
  // A run that went on to the end has later totals than those at its goal.
  const bool reached = outcome.met.has_value() && !record.limits.to_the_end;
  const std::string official = official_result(goal, reached, legacy_s, steps_s);

  check_against_task(record, goal, claims, notes);
  const auto workers = static_cast<int64_t>(events.ranks_with(kEpochTime).size());
  const auto claimed_workers = record.workers ? std::optional(static_cast<double>(*record.workers)) : std::nullopt;
  claims.equal("run.json workers", claimed_workers, static_cast<double>(workers));
  claims.equal("run.json clocks.train_s", record.clocks.train_s, train_s);
  claims.equal("run.json clocks.train_legacy_s", record.clocks.train_legacy_s, legacy_s);
  for (const auto& [kind, value] : steps_s.items()) {
    claims.equal("run.json steps_s." + kind, spec::find_number(record.steps_s, kind), value.get<double>());
    if (workers > 0) claims.equal("global_cum_" + kind, events.total("global_cum_" + kind), value.get<double>());
  }
  if (workers > 0) claims.equal(kTotalTime, events.total(kTotalTime), legacy_s);
  check_evaluations(record, events, goal, resumed, claims);
  if (goal) {
    if (const auto higher = spec::higher_is_better(goal->metric)) {
      claims.equal("run.json goal.higher_is_better", goal->higher_is_better, *higher);
    }
    claims.equal("run.json goal.reached", record.goal->reached, outcome.met.has_value());
    if (outcome.value && (outcome.met || !resumed)) {
      claims.equal("run.json goal.value", record.goal->value, *outcome.value);
    }
    if (reached) claims.equal("run.json goal.train_s", record.goal->train_s, train_s);
  }
  claims.equal("official_result.txt", events.claim().value_or("nothing"), official.empty() ? "nothing" : official);

  return {{"format", "mlbench"},
          {"name", text_or_null(record.name)},
          {"task", text_or_null(record.task)},
          {"light", goal ? Json(record.limits.light) : Json(nullptr)},
          {"workers", workers},
          {"goal", goal_json(goal, outcome)},
          {"official_result", text_or_null(official)},
          {"claimed", events.claim() ? Json(*events.claim()) : Json(nullptr)},
          {"seconds", split_json(legacy_s, steps_s, false, train_s)},
          {"steps_s", steps_s},
          {"source", "epochs"},
          {"epochs", events.points(kEpochTime).size()},
          {"evaluations", values.size()},
          {"differences", claims.differences()},
          {"notes", notes}};
}

}  // namespace mlbench::report
