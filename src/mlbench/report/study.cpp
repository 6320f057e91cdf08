#include "mlbench/report/study.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/text.h"
#include "mlbench/report/comparison.h"
#include "mlbench/report/scaling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/price.h"
#include "mlbench/report/records.h"
#include "mlbench/report/statistics.h"
#include "mlbench/report/table.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {

namespace {

using Figure = std::optional<double>;
using record::Record;

// Samples of all workers in thousands.
Figure kilosamples(const Record& record) {
  if (const int64_t samples = record.throughput.samples.value_or(0); samples > 0) {
    return static_cast<double>(samples) / 1000;
  }
  const double samples = record.throughput.samples_per_s.value_or(0) * record.clocks.train_s.value_or(0);
  return samples > 0 ? Figure(samples / 1000) : Figure();
}

Figure with_value(Figure value) { return value && *value > 0 ? value : Figure(); }

Figure median_over(const std::vector<size_t>& runs, const auto& figure) {
  std::vector<double> values;
  for (const size_t run : runs) {
    if (const Figure value = figure(run)) values.push_back(*value);
  }
  return median(values);
}

// The task of this program that the records were made with, where it is one.
std::optional<spec::TaskSpec> official_task(const Record& record) {
  try {
    spec::FrozenTask frozen = spec::find_task(record.task, record.rules, record.variant, {});
    if (frozen.hash == record.task_hash) return frozen.task;
  } catch (const UserError&) {
    // A task file of somebody's own, of another version, or an archive that names none.
  }
  return std::nullopt;
}

class StudyMaker {
 public:
  StudyMaker(const std::vector<MeasuredRun>& runs, const std::vector<Conditions>& conditions,
             const StudyOptions& options)
      : runs_(runs), conditions_(conditions), options_(options) {}

  Study make(const std::vector<size_t>& members) {
    describe(record(members.front()));
    study_.billed = options_.billed;
    study_.to_goal = std::any_of(members.begin(), members.end(), [&](size_t run) { return goal_s(run).has_value(); });
    const std::vector<std::vector<size_t>> lines = grouped_to_lines(conditions_, members);
    const Distinction distinction =
        distinguish(conditions_, lines, [](const ComparisonKey& key) { return key.kind != KeyKind::kWorkers; });
    for (const ComparisonKey* key : distinction.keys) study_.lines_differ_in.emplace_back(key->name);
    for (size_t i = 0; i < lines.size(); ++i) {
      StudyLine line;
      line.name = lines.size() > 1 ? distinction.names[i] : lone_name(record(members.front()));
      std::map<int64_t, std::vector<size_t>> points;
      for (const size_t run : lines[i]) {
        points[record(run).workers.value_or(0)].push_back(run);
      }
      for (const auto& [workers, repeats] : points) line.points.push_back(point_of(workers, repeats));
      scale(line);
      label(line);
      study_.lines.push_back(std::move(line));
    }
    add_notes(members, distinction.keys);
    study_.notes.emplace_back(study_.billed == BilledClock::kWall
                                  ? "Cost and price index are on the wall clock, all else on the train clock"
                                  : "All figures are on the train clock");
    return std::move(study_);
  }

 private:
  const Record& record(size_t run) const { return runs_[run].record; }
  Figure goal_s(size_t run) const { return figures_of(record(run)).time_to_goal_s; }

  static std::string lone_name(const Record& record) {
    std::vector<std::string> words;
    for (const std::string& word : {record.framework, record.backend}) {
      if (!word.empty()) words.push_back(word);
    }
    return words.empty() ? "default" : fmt::format("{}", fmt::join(words, ", "));
  }

  void add_notes(const std::vector<size_t>& members, const Keys& keys) {
    if (keys.size() > 1) {
      study_.notes.push_back(fmt::format(
          "The lines differ in {}: they stand side by side, and no figure compares one with another", in_words(keys)));
    }
    std::vector<const Record*> records;
    for (const size_t run : members) records.push_back(&record(run));
    if (std::string note = version_note(records); !note.empty()) study_.notes.push_back(std::move(note));
  }

  void describe(const Record& record) {
    study_.task = record.task.empty() ? "unknown task" : record.task;
    study_.title = study_.task;
    if (!record.rules.empty()) study_.title += ", rules " + record.rules;
    if (!record.variant.empty()) study_.title += ", " + record.variant;
    official_ = official_task(record);
    const record::Goal goal = record.goal.value_or(record::Goal{});
    study_.metric = goal.metric;
    study_.split = goal.split;
    study_.target = goal.target;
    study_.target_loss = goal.target_loss;
    // Of a metric of another program, what is known of the goal is drawn all the same.
    study_.higher_is_better = goal.higher_is_better.value_or(true);
    if (study_.target) {
      study_.title += fmt::format(", goal {} {} {:g} on {} data", study_.metric,
                                  study_.higher_is_better ? ">=" : "<=", *study_.target, study_.split);
    } else {
      study_.title += ", throughput";
    }
  }

  // Of the time that `seconds` are; without parts where they are not on record.
  TimeSums sums(size_t run) const {
    return study_.to_goal ? sums_to_goal(record(run)).value_or(TimeSums{}) : sums_of(record(run));
  }

  // What a duration of this run is divided by.
  Figure unit(size_t run) const { return study_.to_goal ? Figure(1) : kilosamples(record(run)); }
  Figure in_unit(size_t run, Figure seconds) const {
    const Figure divisor = unit(run);
    return seconds && divisor ? Figure(*seconds / *divisor) : Figure();
  }
  Figure seconds_of(size_t run) const {
    return in_unit(run, with_value(study_.to_goal ? goal_s(run) : record(run).clocks.train_s));
  }

  Figure billed_seconds(size_t run) const {
    if (study_.billed == BilledClock::kTrain) return seconds_of(run);
    const RunFigures figures = figures_of(record(run));
    return in_unit(run, with_value(study_.to_goal ? figures.wall_to_goal_s : figures.wall_s));
  }

  StudyPoint point_of(int64_t workers, const std::vector<size_t>& repeats) {
    StudyPoint point;
    point.workers = workers;
    point.runs = repeats;
    std::vector<double> train;
    std::vector<double> times;
    for (const size_t run : repeats) {
      if (goal_s(run)) ++point.reached;
      if (const Figure seconds = seconds_of(run)) times.push_back(*seconds);
      train.push_back(in_unit(run, record(run).clocks.train_s).value_or(0));
    }
    const bool complete = !study_.to_goal || point.reached == std::ssize(repeats);
    point.shown = repeats[median_index(complete && times.size() == repeats.size() ? times : train)];
    if (complete && !times.empty()) {
      point.seconds = median(times);
      point.least_s = *std::min_element(times.begin(), times.end());
      point.most_s = *std::max_element(times.begin(), times.end());
      point.compute_s = median_over(
          repeats, [&](size_t run) { return in_unit(run, with_value(compute_seconds(sums(run).steps_s))); });
      add_cost(point);
    } else if (study_.to_goal) {
      study_.notes.push_back(fmt::format("{}: {} of {} did not reach the goal, so k = {} has no time to it",
                                         names_of(repeats), std::ssize(repeats) - point.reached, std::ssize(repeats),
                                         workers));
    }
    point.samples_per_s = median_over(repeats, [&](size_t run) { return record(run).throughput.samples_per_s; });
    point.communication_share =
        median_over(repeats, [&](size_t run) { return figures_of(record(run)).communication_share; });
    point.communication_per_compute = median_over(repeats, [&](size_t run) {
      const Figure agg = spec::find_number(record(run).steps_s, "agg");
      const Figure compute = with_value(compute_seconds(record(run).steps_s));
      return agg && compute ? Figure(*agg / *compute) : Figure();
    });
    add_exchange(point);
    const TimeSums shown = sums(point.shown);
    for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
      point.kinds_s[kind] = in_unit(point.shown, spec::find_number(shown.steps_s, record::kStepKindNames[kind]));
    }
    if (goal_s(point.shown) && shown.steps_s.empty()) {
      study_.notes.push_back(
          fmt::format("{}: what its steps took up to the goal is not on record, so k = {} has no bars",
                      names_of({point.shown}), workers));
    }
    if (official_ && official_->schedule.decay == "inverse_sqrt") {
      const auto alpha = official_->schedule.lr_by_workers.find(workers);
      if (alpha != official_->schedule.lr_by_workers.end()) point.alpha = alpha->second;
    }
    return point;
  }

  void add_exchange(StudyPoint& point) const {
    const auto figures = [&](size_t run) { return figures_of(record(run)); };
    point.wait_share = median_over(point.runs, [&](size_t run) { return figures(run).wait_share; });
    point.transfer_share = median_over(point.runs, [&](size_t run) { return figures(run).transfer_share; });
    point.exchange_exact = std::ranges::all_of(point.runs, [&](size_t run) { return figures(run).exchange_exact; });
    point.hidden_share = median_over(point.runs, [&](size_t run) { return figures(run).hidden_share; });
    const record::Exchange exchange = sums(point.shown).exchange.value_or(record::Exchange{});
    const auto of_shown = [&](const auto& of_ranks) { return in_unit(point.shown, of_rank_0(of_ranks)); };
    point.wait_s = of_shown(exchange.wait_s);
    point.transfer_s = of_shown(exchange.transfer_s);
    point.exposed_s = of_shown(exchange.exposed_s);
    point.hidden_s = of_shown(exchange.hidden_s);
  }

  std::string names_of(const std::vector<size_t>& runs) const {
    std::vector<std::string> names;
    for (const size_t run : runs) names.push_back(record(run).name);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void add_cost(StudyPoint& point) {
    point.billed_s = median_over(point.runs, [&](size_t run) { return billed_seconds(run); });
    if (point.billed_s) {
      const double samples = study_.to_goal ? 1 : 1000;  // of 1,000 samples; the cost is per million
      point.cost = cost_of(*point.billed_s * samples, point.workers, options_.worker_per_hour);
    } else {
      study_.notes.push_back(fmt::format("{}: no {} clock{} is on record, so k = {} has no cost", names_of(point.runs),
                                         name_of(study_.billed), study_.to_goal ? " up to the goal" : "",
                                         point.workers));
    }
  }

  void scale(StudyLine& line) const {
    const StudyPoint& base = line.points.front();
    line.baseline = names_of(base.runs);
    if (!base.seconds) {
      line.no_baseline =
          study_.to_goal ? "its smallest worker count did not reach the goal" : "its smallest worker count has no time";
      return;
    }
    if (base.workers <= 0) {
      line.no_baseline = "its number of workers is not known";
      return;
    }
    const double base_cost = base.cost.value_or(0), base_s = *base.seconds, base_billed_s = base.billed_s.value_or(0);
    const Figure base_compute = base.compute_s;
    for (StudyPoint& point : line.points) {
      if (!point.seconds) continue;
      const Scaling scaling = scaling_of_time(base_s, base.workers, *point.seconds, point.workers);
      point.speed_up = scaling.speed_up;
      point.efficiency = scaling.efficiency;
      if (base_compute && point.compute_s) point.compute_speed_up = *base_compute / *point.compute_s;
      if (point.cost && base_cost > 0) {
        point.price_increase = *point.cost / base_cost;
        point.price_index = price_index(*point.cost, base_cost, base_billed_s / *point.billed_s);
      }
    }
  }

  void label(StudyLine& line) {
    std::map<std::string, std::vector<std::string>> labelled;
    for (const StudyPoint& point : line.points) {
      for (const size_t run : point.runs) {
        for (const std::string& one : figures_of(record(run)).labels) labelled[one].push_back(record(run).name);
      }
    }
    for (const auto& [one, names] : labelled) {
      line.labels.push_back(one);
      study_.notes.push_back(fmt::format("{}: {}", one, fmt::join(names, ", ")));
    }
    const int64_t workers = line.points.front().workers;
    const std::string what = line.no_baseline.empty()
                                 ? fmt::format("{} ({}{})", line.baseline, counted(workers, "worker"),
                                               line.points.front().runs.size() > 1 ? ", median" : "")
                                 : "none, " + line.no_baseline;
    study_.notes.push_back(fmt::format("Baseline of {}: {}", line.name, what));
  }

  const std::vector<MeasuredRun>& runs_;
  const std::vector<Conditions>& conditions_;
  const StudyOptions& options_;
  std::optional<spec::TaskSpec> official_;
  Study study_;
};

// Studies of one title say in what they differ.
void tell_apart(std::vector<Study>& studies, const std::vector<Conditions>& conditions,
                const std::vector<std::vector<size_t>>& groups, const KeyChoice& apart) {
  std::map<std::string, std::vector<size_t>> by_title;
  for (size_t i = 0; i < studies.size(); ++i) by_title[studies[i].title].push_back(i);
  for (const auto& [title, same] : by_title) {
    if (same.size() < 2) continue;
    std::vector<std::vector<size_t>> runs;
    for (const size_t study : same) runs.push_back(groups[study]);
    const Distinction distinction = distinguish(conditions, runs, apart);
    for (size_t i = 0; i < same.size(); ++i) studies[same[i]].title += fmt::format(" ({})", distinction.names[i]);
  }
}

}  // namespace

std::string_view name_of(BilledClock clock) { return clock == BilledClock::kWall ? "wall" : "train"; }

std::vector<Study> make_studies(const std::vector<MeasuredRun>& runs, const StudyOptions& options,
                                std::vector<std::string>& notes) {
  std::vector<Conditions> conditions;
  std::vector<size_t> members;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Record& record = runs[i].record;
    conditions.emplace_back(record);
    if (record.state != "finished") {
      notes.push_back(fmt::format("run '{}' is left out: it is {}", record.name,
                                  record.state.empty() ? "of unknown state" : record.state));
    } else if (figures_of(record).shared_host) {
      notes.push_back(
          fmt::format("run '{}' is left out: other runs were on its host (--share-host), so its times are "
                      "compared with none",
                      record.name));
    } else if (!with_value(record.clocks.train_s) || record.workers.value_or(0) < 1) {
      notes.push_back(fmt::format("run '{}' is left out: it measured no training", record.name));
    } else {
      members.push_back(i);
    }
  }
  const KeyChoice apart = [&](const ComparisonKey& key) {
    const bool of_lines = options.lines.empty() || std::ranges::count(options.lines, key.name) > 0;
    return key.kind == KeyKind::kFixed || (key.kind == KeyKind::kFree && !of_lines);
  };
  const std::vector<std::vector<size_t>> groups = grouped(conditions, members, apart);
  std::vector<Study> made;
  for (const auto& group : groups) made.push_back(StudyMaker(runs, conditions, options).make(group));
  tell_apart(made, conditions, groups, apart);
  return made;
}

std::string study_table(const Study& study, const std::string& currency) {
  const auto any_point = [&](const auto& is_so) {
    return std::ranges::any_of(study.lines,
                               [&](const StudyLine& line) { return std::ranges::any_of(line.points, is_so); });
  };
  const bool alpha = any_point([](const StudyPoint& point) { return point.alpha.has_value(); });
  const bool hidden = any_point([](const StudyPoint& point) { return point.hidden_share.value_or(0) > 0; });
  std::vector<Column> columns = {
      {"line", "", Align::kLeft},
      {"k", "", Align::kRight},
      {"runs", "", Align::kRight},
      {study.to_goal ? "time to goal" : "time", study.to_goal ? "s" : "s/1000 samples", Align::kRight},
      {"speed-up", "total", Align::kRight},
      {"speed-up", "compute", Align::kRight},
      {"efficiency", "", Align::kRight},
      {"comm.", "of train", Align::kRight},
      {"wait", "of train", Align::kRight},
      {"transfer", "of train", Align::kRight}};
  if (hidden) columns.push_back({"hidden", "of train", Align::kRight});
  columns.push_back({"comm.", "/ compute", Align::kRight});
  columns.push_back({"cost", currency + (study.to_goal ? "" : "/million samples"), Align::kRight});
  columns.push_back({"price", "index", Align::kRight});
  if (alpha) columns.push_back({"alpha", "", Align::kRight});
  Table table(std::move(columns));
  for (const StudyLine& line : study.lines) {
    for (const StudyPoint& point : line.points) {
      std::vector<std::string> cells = {line.name,
                                        fmt::format("{}", point.workers),
                                        fmt::format("{}", point.runs.size()),
                                        point.seconds   ? format_seconds(point.seconds)
                                        : study.to_goal ? "not reached"
                                                        : std::string(kNone),
                                        format_ratio(point.speed_up),
                                        format_ratio(point.compute_speed_up),
                                        format_percent(point.efficiency),
                                        format_percent(point.communication_share),
                                        format_wait(point.wait_share, point.exchange_exact),
                                        format_transfer(point.transfer_share, point.exchange_exact)};
      if (hidden) cells.push_back(format_percent(point.hidden_share));
      cells.push_back(format_ratio(point.communication_per_compute));
      cells.push_back(format_seconds(point.cost));
      cells.push_back(format_ratio(point.price_index));
      if (alpha) cells.push_back(point.alpha ? fmt::format("{:g}", *point.alpha) : std::string(kNone));
      table.add_row(std::move(cells));
    }
  }
  std::string out = study.title + "\n" + table.render();
  for (const std::string& note : study.notes) out += "  " + note + "\n";
  return printable_lines(out, "");
}

Json to_json(const Study& study, const std::vector<MeasuredRun>& runs) {
  Json lines = Json::array();
  for (const StudyLine& line : study.lines) {
    Json points = Json::array();
    for (const StudyPoint& point : line.points) {
      Json names = Json::array(), kinds = Json::object();
      for (const size_t run : point.runs) names.push_back(runs[run].record.name);
      for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
        kinds[std::string(record::kStepKindNames[kind])] = or_null(point.kinds_s[kind]);
      }
      points.push_back({{"workers", point.workers},
                        {"runs", names},
                        {"shown", runs[point.shown].record.name},
                        {"reached", point.reached},
                        {"seconds", or_null(point.seconds)},
                        {"least_s", or_null(point.least_s)},
                        {"most_s", or_null(point.most_s)},
                        {"compute_s", or_null(point.compute_s)},
                        {"samples_per_s", or_null(point.samples_per_s)},
                        {"speed_up", or_null(point.speed_up)},
                        {"efficiency", or_null(point.efficiency)},
                        {"compute_speed_up", or_null(point.compute_speed_up)},
                        {"communication_share", or_null(point.communication_share)},
                        {"communication_per_compute", or_null(point.communication_per_compute)},
                        {"wait_share", or_null(point.wait_share)},
                        {"transfer_share", or_null(point.transfer_share)},
                        {"exchange_exact", point.exchange_exact},
                        {"hidden_share", or_null(point.hidden_share)},
                        {"steps_s", kinds},
                        {"wait_s", or_null(point.wait_s)},
                        {"transfer_s", or_null(point.transfer_s)},
                        {"exposed_s", or_null(point.exposed_s)},
                        {"hidden_s", or_null(point.hidden_s)},
                        {"billed_s", or_null(point.billed_s)},
                        {"cost", or_null(point.cost)},
                        {"price_increase", or_null(point.price_increase)},
                        {"price_index", or_null(point.price_index)},
                        {"alpha", or_null(point.alpha)}});
    }
    lines.push_back({{"name", line.name},
                     {"baseline", line.no_baseline.empty() ? Json(line.baseline) : Json(nullptr)},
                     {"labels", line.labels},
                     {"points", points}});
  }
  return {{"task", study.task},
          {"title", study.title},
          {"unit", study.to_goal ? "seconds to the goal" : "seconds per 1,000 samples"},
          {"billed_clock", name_of(study.billed)},
          {"metric", study.metric},
          {"target", or_null(study.target)},
          {"target_loss", or_null(study.target_loss)},
          {"lines", lines},
          {"lines_differ_in", study.lines_differ_in},
          {"notes", study.notes}};
}

}  // namespace mlbench::report
