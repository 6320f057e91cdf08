#include "mlbench/report/result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/record/record.h"
#include "mlbench/record/spool.h"
#include "mlbench/report/archive_events.h"
#include "mlbench/report/compare.h"
#include "mlbench/report/records.h"
#include "mlbench/report/table.h"

namespace mlbench::report {

namespace {

using Time = std::chrono::system_clock::time_point;

struct Goal {
  std::string metric, split;
  double target = 0;
  bool higher_is_better = true;

  std::string series() const { return (split == "train" ? "train_" : "val_global_") + metric; }
  std::string text() const { return fmt::format("{} {} {:g}", metric, higher_is_better ? ">=" : "<=", target); }
};

// Whether and when evaluations meet a goal.
struct Outcome {
  std::optional<size_t> met;    // index of the first evaluation that meets it
  std::optional<double> value;  // of that, or the best
};

Outcome outcome_of(const Goal& goal, const std::vector<double>& values) {
  const spec::GoalSpec spec{goal.metric, goal.split, goal.target, goal.target, goal.higher_is_better};
  Outcome outcome;
  for (size_t i = 0; i < values.size(); ++i) {
    if (metrics::goal_met(spec, false, values[i])) return {i, values[i]};
    if (std::isnan(values[i])) continue;
    if (!outcome.value || (goal.higher_is_better ? values[i] > *outcome.value : values[i] < *outcome.value)) {
      outcome.value = values[i];
    }
  }
  return outcome;
}

// Compares claims with what was derived, and keeps the differences.
class Claims {
 public:
  void differ(const std::string& what, const std::string& claimed, const std::string& derived) {
    differences_.push_back({{"what", what}, {"claimed", claimed}, {"derived", derived}});
  }
  template <typename T>
  void equal(const std::string& what, const T& claimed, const T& derived) {
    if (claimed != derived) differ(what, fmt::format("{}", claimed), fmt::format("{}", derived));
  }
  void equal(const std::string& what, const std::optional<double>& claimed, double derived) {
    if (claimed != derived) differ(what, claimed ? fmt::format("{}", *claimed) : "nothing", fmt::format("{}", derived));
  }
  void near(const std::string& what, double claimed, double derived, double tolerance) {
    if (!(std::abs(claimed - derived) <= tolerance + 1e-6 * std::abs(derived))) {
      differ(what, fmt::format("{}", claimed), fmt::format("{}", derived));
    }
  }
  const Json& differences() const { return differences_; }

 private:
  Json differences_ = Json::array();
};

// The fields of a record that official_result() reads.
Json official_fields(const std::optional<Goal>& goal, bool reached, double total_s, const Json& steps_s) {
  Json record = {{"goal", nullptr}, {"clocks", {{"train_legacy_s", total_s}}}, {"steps_s", steps_s}};
  if (goal) {
    record["goal"] = {{"metric", goal->metric}, {"split", goal->split}, {"target", goal->target}, {"reached", reached}};
  }
  return record;
}

Json split_json(double total_s, const Json& steps_s, bool total_has_batch_load, std::optional<double> train_s) {
  const auto sum = [&](std::initializer_list<const char*> kinds) {
    double seconds = 0;
    for (const char* kind : kinds) seconds += steps_s.value(kind, 0.0);
    return seconds;
  };
  const double compute = sum({"fwd_pass", "comp_loss", "backprop", "opt_step"});
  const double communication = sum({"agg"}), metrics = sum({"comp_metrics"}), preprocessing = sum({"batch_load"});
  const double parts = compute + communication + metrics + (total_has_batch_load ? preprocessing : 0);
  return {{"total", total_s},
          {"compute", compute},
          {"communication", communication},
          {"metrics", metrics},
          {"preprocessing", preprocessing},
          {"other", std::max(0.0, total_s - parts)},
          {"train", train_s ? Json(*train_s) : Json(nullptr)}};
}

Json goal_json(const std::optional<Goal>& goal, const Outcome& outcome) {
  if (!goal) return nullptr;
  return {{"metric", goal->metric},
          {"split", goal->split},
          {"target", goal->target},
          {"higher_is_better", goal->higher_is_better},
          {"reached", outcome.met.has_value()},
          {"value", outcome.value ? Json(*outcome.value) : Json(nullptr)},
          {"evaluation", outcome.met ? Json(*outcome.met + 1) : Json(nullptr)}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// ---- our own archives -----------------------------------------------------------------------------------------------

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
double seconds_of(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::optional<Goal> goal_of_record(const Json& record) {
  const auto target = number(record, "/goal/target");
  if (!target) return std::nullopt;
  Goal goal{text(record, "/goal/metric"), text(record, "/goal/split"), *target, true};
  if (goal.metric.empty()) return std::nullopt;
  goal.higher_is_better = metrics::make_metric(goal.metric)->higher_is_better();
  return goal;
}

// What the task file of this name says, where it is the one that the run was made with.
void check_against_task(const Json& record, const std::optional<Goal>& goal, Claims& claims, Json& notes) {
  const std::string name = text(record, "/task");
  const bool light = record.value("limits", Json::object()).value("light", false);
  std::optional<spec::FrozenTask> frozen;
  try {
    frozen = spec::find_task(name, text(record, "/rules"), text(record, "/variant"), {});
  } catch (const UserError&) {
    // A task file of somebody's own, or of a later version.
  }
  if (!frozen || frozen->hash != text(record, "/task_hash")) {
    notes.push_back(fmt::format("the task '{}' is not one of this program's: its goal is what run.json says", name));
    return;
  }
  if (!goal || !record.value("overrides", Json::array()).empty()) return;
  const spec::GoalSpec& official = frozen->task.goal;
  claims.equal("run.json goal.metric", goal->metric, official.metric);
  claims.equal("run.json goal.split", goal->split, official.split);
  claims.equal("run.json goal.target", std::optional(goal->target), metrics::goal_target(official, light));
}

// Every value that run.json shows must be among the events, in order; all of them unless a resumed run did some again.
void check_evaluations(const Json& record, const ArchiveEvents& events, const std::optional<Goal>& goal, bool resumed,
                       Claims& claims) {
  const Json evaluations = record.value("evaluations", Json::array());
  if (!evaluations.is_array()) ArchiveEvents::fail("run.json", "its evaluations are no list");
  std::map<std::string, std::vector<double>> claimed;
  if (goal && goal->split == "test") claimed[goal->metric];  // also when run.json shows none
  for (const Json& evaluation : evaluations) {
    if (text(evaluation, "/split") != "test") continue;
    const Json values = evaluation.value("metrics", Json::object());
    for (const auto& [name, value] : values.items()) {
      if (value.is_number()) claimed[name].push_back(value.get<double>());
    }
  }
  for (const auto& [name, values] : claimed) {
    const std::vector<double> found = events.numbers("val_global_" + name);
    auto from = found.begin();
    const bool in_order = std::all_of(values.begin(), values.end(), [&](double value) {
      from = std::find(from, found.end(), value);
      return from != found.end() && (++from, true);
    });
    if (!in_order || (!resumed && found.size() != values.size())) {
      claims.differ("run.json evaluations, " + name,
                    values.empty() ? "nothing" : fmt::format("{}", fmt::join(values, " ")),
                    found.empty() ? "nothing" : fmt::format("{}", fmt::join(found, " ")));
    }
  }
}

Json derive_own(const ArchiveEvents& events) {
  const Json& record = *events.record();
  if (is_active(record)) {
    throw UserError(fmt::format("the archive was made while run '{}' was {}: download it again when it has ended",
                                text(record, "/name"), text(record, "/state")));
  }
  Claims claims;
  Json notes = Json::array();
  const bool resumed = record.value("segments", Json::array()).size() > 1;

  Json steps_s = Json::object();
  int64_t train_ns = 0, legacy_ns = 0;
  for (const std::string_view kind : record::kStepKindNames) {
    int64_t sum = 0;
    for (const double value : events.seconds(std::string(kind))) {
      sum += nanoseconds(value);
      if (seconds_of(sum) >= kMostSeconds) {
        ArchiveEvents::fail(ArchiveEvents::member_of(std::string(kind)),
                            fmt::format("its sum is above {:g} seconds", kMostSeconds));
      }
    }
    steps_s[std::string(kind)] = seconds_of(sum);
    train_ns += sum;
    if (kind != "batch_load" && kind != "checkpoint") legacy_ns += sum;
  }
  const double train_s = seconds_of(train_ns), legacy_s = seconds_of(legacy_ns);

  const std::optional<Goal> goal = goal_of_record(record);
  const std::vector<double> values = goal ? events.numbers(goal->series()) : std::vector<double>();
  const Outcome outcome = goal ? outcome_of(*goal, values) : Outcome();
  const std::string official = official_result(official_fields(goal, outcome.met.has_value(), legacy_s, steps_s));

  check_against_task(record, goal, claims, notes);
  const auto workers = static_cast<int64_t>(events.ranks_with(kEpochTime).size());
  claims.equal("run.json workers", number(record, "/workers"), static_cast<double>(workers));
  claims.equal("run.json clocks.train_s", number(record, "/clocks/train_s"), train_s);
  claims.equal("run.json clocks.train_legacy_s", number(record, "/clocks/train_legacy_s"), legacy_s);
  for (const auto& [kind, value] : steps_s.items()) {
    claims.equal("run.json steps_s." + kind, number(record, ("/steps_s/" + kind).c_str()), value.get<double>());
    if (workers > 0) claims.equal("global_cum_" + kind, events.total("global_cum_" + kind), value.get<double>());
  }
  if (workers > 0) claims.equal(kTotalTime, events.total(kTotalTime), legacy_s);
  check_evaluations(record, events, goal, resumed, claims);
  if (goal) {
    claims.equal("run.json goal.reached", record["goal"].value("reached", false), outcome.met.has_value());
    if (outcome.value && (outcome.met || !resumed)) {
      claims.equal("run.json goal.value", number(record, "/goal/value"), *outcome.value);
    }
    if (outcome.met) claims.equal("run.json goal.train_s", number(record, "/goal/train_s"), train_s);
  }
  claims.equal("official_result.txt", events.claim().value_or("nothing"), official.empty() ? "nothing" : official);

  return {{"format", "mlbench"},
          {"name", text_or_null(text(record, "/name"))},
          {"task", text_or_null(text(record, "/task"))},
          {"light", goal ? Json(record.value("limits", Json::object()).value("light", false)) : Json(nullptr)},
          {"workers", workers},
          {"goal", goal_json(goal, outcome)},
          {"official_result", text_or_null(official)},
          {"claimed", events.claim() ? Json(*events.claim()) : Json(nullptr)},
          {"seconds", split_json(legacy_s, steps_s, false, train_s)},
          {"source", "epochs"},
          {"epochs", events.points(kEpochTime).size()},
          {"evaluations", values.size()},
          {"differences", claims.differences()},
          {"notes", notes}};
}

// ---- archives of MLBench's dashboard --------------------------------------------------------------------------------

// The goals of MLBench's tasks; a later version than 2020-12 for 3a, which was 50 before.
struct KnownGoal {
  const char* task;
  const char* metric;
  double target, light_target;
  bool higher_is_better;
};
constexpr KnownGoal kKnownGoals[] = {
    {"1a", "Prec@1", 80, 70, true},     {"2a", "Prec@1", 89, 80, true},     {"3a", "Perplexity", 70, 90, false},
    {"4a", "BLEU-Score", 24, 20, true}, {"4b", "BLEU-Score", 25, 20, true},
};

// "80% Top 1 Validation Accuracy reached in 106.910 seconds, Compute: 53.0 seconds, ..."
struct OfficialText {
  Goal goal;
  double total_s = 0;
  std::map<std::string, double> parts;  // "Compute" ...
};

std::optional<OfficialText> parse_official(const std::string& text) {
  static const std::regex kAccuracy(R"(([0-9.]+)% Top ([0-9]+) (Validation|Training) Accuracy reached in (.*))");
  static const std::regex kOther(R"((Validation|Training) (.+) of ([0-9.]+) reached in (.*))");
  static const std::regex kTimes(R"(([0-9.]+) seconds((?:, [A-Z][-A-Za-z ]*: [-+0-9.e]+ seconds)*))");
  static const std::regex kPart(R"(, ([A-Z][-A-Za-z ]*): ([-+0-9.e]+) seconds)");
  const auto number_in = [](const std::string& digits) {
    double value = NAN;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : NAN;
  };
  if (text.size() > 1000) return std::nullopt;  // std::regex recurses
  OfficialText official;
  std::smatch match;
  std::string times;
  if (std::regex_match(text, match, kAccuracy)) {
    official.goal = {"Prec@" + match[2].str(), match[3] == "Training" ? "train" : "test", number_in(match[1]), true};
    times = match[4];
  } else if (std::regex_match(text, match, kOther)) {
    official.goal = {match[2], match[1] == "Training" ? "train" : "test", number_in(match[3]), true};
    for (const KnownGoal& known : kKnownGoals) {
      if (official.goal.metric == known.metric) official.goal.higher_is_better = known.higher_is_better;
    }
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

// Rows of the table that the archive can be of. Task 2a is told from 1a by its F1 score, where both could be meant.
std::vector<const KnownGoal*> candidates(const ArchiveEvents& events, const std::optional<OfficialText>& claim) {
  const bool has_f1 = events.has("val_global_F1-Score") || events.has("val_F1-Score");
  std::vector<const KnownGoal*> found;
  for (const KnownGoal& known : kKnownGoals) {
    if (claim) {
      const double target = claim->goal.target;
      if (claim->goal.metric != known.metric || (target != known.target && target != known.light_target)) continue;
    } else if (!events.has(std::string("val_global_") + known.metric)) {
      continue;
    }
    found.push_back(&known);
  }
  if (found.size() > 1 && std::string_view(found.front()->metric) == "Prec@1") {
    std::erase_if(found, [&](const KnownGoal* known) { return (std::string_view(known->task) == "2a") != has_f1; });
  }
  return found;
}

struct Sums {
  double total_s = 0;
  Json steps_s = Json::object();
  size_t epochs = 0;
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

// The run's own totals: all there is where the goal was met in the middle of an epoch.
Sums own_totals(const ArchiveEvents& events, size_t epochs) {
  Sums sums;
  sums.epochs = epochs;
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

  std::optional<Goal> goal;
  if (claim) {
    goal = claim->goal;
  } else if (!known.empty()) {
    // The strictest: nothing is claimed, so only what surely was reached counts.
    goal = Goal{known.back()->metric, "test", known.back()->target, known.back()->higher_is_better};
  }
  const std::vector<double> values = goal ? events.numbers(goal->series()) : std::vector<double>();
  const Outcome outcome = goal ? outcome_of(*goal, values) : Outcome();
  if (goal && values.empty())
    notes.push_back(fmt::format("there is no '{}'", ArchiveEvents::member_of(goal->series())));

  // Epochs that ended by the evaluation that met the goal.
  const std::vector<ArchivePoint>& epoch_points = events.points(kEpochTime);
  size_t epochs = epoch_points.size();
  bool in_mid_epoch = false;
  if (outcome.met) {
    const Time met_at = events.points(goal->series())[*outcome.met].date;
    epochs = static_cast<size_t>(std::count_if(epoch_points.begin(), epoch_points.end(),
                                               [&](const ArchivePoint& point) { return point.date <= met_at; }));
    in_mid_epoch = epochs == 0 || any_between(events.points("train_loss"), epoch_points[epochs - 1].date, met_at);
    if (*outcome.met + 1 < values.size()) {
      notes.push_back(
          fmt::format("{} more evaluations after the goal was met are left out", values.size() - *outcome.met - 1));
    }
  }
  const Sums sums = in_mid_epoch ? own_totals(events, epochs) : sum_epochs(events, epochs);
  if (in_mid_epoch) notes.push_back("the goal was met in the middle of an epoch: the times are the run's own totals");
  const std::string official =
      official_result(official_fields(goal, outcome.met.has_value(), sums.total_s, sums.steps_s));

  const Json seconds = split_json(sums.total_s, sums.steps_s, true, std::nullopt);
  if (claim && !official.empty()) {
    claims.near("official_result.txt, total", claim->total_s, sums.total_s, 1e-3);
    const std::pair<const char*, const char*> parts[] = {{"Compute", "compute"},
                                                         {"Communication", "communication"},
                                                         {"Metrics Computation", "metrics"},
                                                         {"Pre-processing", "preprocessing"}};
    for (const auto& [name, key] : parts) {
      const auto part = claim->parts.find(name);
      claims.near(std::string("official_result.txt, ") + name, part == claim->parts.end() ? 0 : part->second,
                  seconds[key].get<double>(), 1e-6);
    }
  } else if (events.claim().has_value() || !official.empty()) {
    claims.differ("official_result.txt", events.claim().value_or("nothing"),
                  !official.empty() ? official
                  : outcome.value   ? fmt::format("the best {} is {}", goal->metric, *outcome.value)
                                    : "no evaluation");
  }
  if (!in_mid_epoch && outcome.met && epochs == epoch_points.size()) {
    if (const auto total = events.total(kTotalTime)) claims.near(kTotalTime, *total, sums.total_s, 1e-6);
    for (const auto& [kind, value] : sums.steps_s.items()) {
      if (const auto total = events.total("global_cum_" + kind)) {
        claims.near("global_cum_" + kind, *total, value.get<double>(), 1e-6);
      }
    }
  }

  std::vector<std::string> tasks;
  for (const KnownGoal* one : known) tasks.emplace_back(one->task);
  const bool light = claim && !known.empty() && claim->goal.target == known.front()->light_target;
  return {{"format", "dashboard"},
          {"name", nullptr},
          {"task", tasks.empty() ? Json(nullptr) : Json(fmt::format("{}", fmt::join(tasks, " or ")))},
          {"light", claim && !known.empty() ? Json(light) : Json(nullptr)},
          {"workers", events.ranks_with(kEpochTime).size()},
          {"goal", goal_json(goal, outcome)},
          {"official_result", text_or_null(official)},
          {"claimed", events.claim() ? Json(*events.claim()) : Json(nullptr)},
          {"seconds", seconds},
          {"source", in_mid_epoch ? "totals" : "epochs"},
          {"epochs", sums.epochs},
          {"evaluations", values.size()},
          {"differences", claims.differences()},
          {"notes", notes}};
}

}  // namespace

Json derive_result(const std::vector<ZipMember>& members) {
  const ArchiveEvents events(members);
  // A custom run's events are those of its script, as a dashboard would have stored them.
  if (!events.record() || text(*events.record(), "/division") == "custom") return derive_dashboard(events);
  try {
    return derive_own(events);
  } catch (const Json::exception& error) {  // of another type than the record's schema says
    ArchiveEvents::fail("run.json", error.what());
  }
}

std::string result_text(const Json& result) {
  const Json& goal = result["goal"];
  const auto workers = result["workers"].get<int64_t>();
  std::string out;
  if (result["name"].is_string()) out += result["name"].get<std::string>() + ": ";
  out += result["task"].is_string() ? "task " + result["task"].get<std::string>() : std::string("unknown task");
  if (goal.is_object()) {
    out +=
        fmt::format(", {}goal {} {} {:g}", result["light"].is_boolean() && result["light"].get<bool>() ? "light " : "",
                    goal["metric"].get<std::string>(),
                    goal["higher_is_better"].get<bool>() ? ">=" : "<=", goal["target"].get<double>());
  }
  out += fmt::format(", {} worker{} (archive of {})\n", workers, workers == 1 ? "" : "s",
                     result["format"] == "mlbench" ? "mlbench" : "MLBench's dashboard");
  if (result["official_result"].is_string()) {
    out += result["official_result"].get<std::string>() + "\n";
  } else if (goal.is_object()) {
    out += fmt::format("no official result: the goal was not reached{}\n",
                       goal["value"].is_number() ? fmt::format(" (best {})", format_metric(goal["value"].get<double>()))
                                                 : std::string());
  } else {
    out += "no official result: a run without a goal\n";
  }

  const Json& seconds = result["seconds"];
  const double whole = seconds[seconds["train"].is_number() ? "train" : "total"].get<double>();
  Table table({{"", "", Align::kLeft}, {"seconds", "", Align::kRight}, {"share", "", Align::kRight}});
  const std::pair<const char*, const char*> rows[] = {{"train", "train clock"}, {"total", "total"},
                                                      {"compute", "compute"},   {"communication", "communication"},
                                                      {"metrics", "metrics"},   {"preprocessing", "pre-processing"},
                                                      {"other", "other"}};
  for (const auto& [key, title] : rows) {
    if (!seconds[key].is_number()) continue;
    const double value = seconds[key].get<double>();
    const bool is_part = std::string_view(key) != "train" && std::string_view(key) != "total";
    table.add_row({title, format_seconds(value), is_part && whole > 0 ? format_percent(value / whole) : std::string()});
  }
  out += table.render();
  const auto epochs = result["epochs"].get<int64_t>(), evaluations = result["evaluations"].get<int64_t>();
  out += fmt::format("{} epoch{}, {} evaluation{}", epochs, epochs == 1 ? "" : "s", evaluations,
                     evaluations == 1 ? "" : "s");
  if (goal.is_object() && goal["evaluation"].is_number()) {
    out += fmt::format("; the goal was met at evaluation {} with {}", goal["evaluation"].get<int64_t>(),
                       format_metric(goal["value"].get<double>()));
  }
  out += "\n";
  for (const Json& note : result["notes"]) out += fmt::format("note: {}\n", note.get<std::string>());
  if (result["differences"].empty())
    return printable_lines(out + "what the archive claims is what its events give\n", "");
  out += "the archive claims otherwise than its events give:\n";
  for (const Json& one : result["differences"]) {
    out += fmt::format("  {}\n    claimed  {}\n    derived  {}\n", one["what"].get<std::string>(),
                       one["claimed"].get<std::string>(), one["derived"].get<std::string>());
  }
  return printable_lines(out, "");
}

}  // namespace mlbench::report
