#include "mlbench/report/study/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/text.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/report/study/answer.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/price.h"
#include "mlbench/report/study/scaling.h"
#include "mlbench/report/study/statistics.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {

namespace {

using Value = std::optional<double>;
using record::Record;

constexpr double kKnee = 1.25;  // the least ratio to the worker count before that makes a knee

// Thousands of samples that all workers processed; empty where that is not known.
Value kilosamples(const Record& record) {
  if (const int64_t samples = record.throughput.samples.value_or(0); samples > 0) {
    return static_cast<double>(samples) / 1000;
  }
  const double samples = record.throughput.samples_per_s.value_or(0) * record.clocks.train_s.value_or(0);
  return samples > 0 ? Value(samples / 1000) : Value();
}

Value with_value(Value value) { return value && *value > 0 ? value : Value(); }

std::vector<double> values_over(const std::vector<size_t>& runs, const auto& figure) {
  std::vector<double> values;
  for (const size_t run : runs) {
    if (const Value value = figure(run)) values.push_back(*value);
  }
  return values;
}
Value median_over(const std::vector<size_t>& runs, const auto& figure) { return median(values_over(runs, figure)); }

// The task with which the record was made, where it is one of this program's.
std::optional<spec::TaskSpec> official_task(const Record& record) {
  try {
    spec::FrozenTask frozen = spec::find_task(record.task, record.rules, record.variant, {});
    if (frozen.hash == record.task_hash) return frozen.task;
  } catch (const UserError&) {
    // The task file is a user's own or of another version, or the record comes from an archive that names no task.
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
      line.answer = answer_of(study_, line);
      study_.lines.push_back(std::move(line));
    }
    add_notes(members, distinction.keys);
    study_.notes.emplace_back(study_.billed == BilledClock::kWall
                                  ? "Cost and price index are on the wall clock without the preparation of "
                                    "data, all else on the train clock"
                                  : "All figures are on the train clock");
    return std::move(study_);
  }

 private:
  const Record& record(size_t run) const { return runs_[run].record; }
  Value goal_s(size_t run) const { return figures_of(record(run)).time_to_goal_s; }

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
    add_comparison_notes(records, study_.notes);
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
    // The direction is not known for the metric of another program; the goal is drawn all the same.
    study_.higher_is_better = goal.higher_is_better.value_or(true);
    if (study_.target) {
      study_.title += fmt::format(", goal {} {} {:g} on {} data", study_.metric,
                                  study_.higher_is_better ? ">=" : "<=", *study_.target, study_.split);
    } else {
      study_.title += ", throughput";
    }
  }

  // The parts of the time that seconds_of() gives; empty where they are not on record.
  TimeSums sums(size_t run) const {
    return study_.to_goal ? sums_to_goal(record(run)).value_or(TimeSums{}) : sums_of(record(run));
  }

  // The number by which durations of the run are divided.
  Value unit(size_t run) const { return study_.to_goal ? Value(1) : kilosamples(record(run)); }
  Value in_unit(size_t run, Value seconds) const {
    const Value divisor = unit(run);
    return seconds && divisor ? Value(*seconds / *divisor) : Value();
  }
  Value seconds_of(size_t run) const {
    return in_unit(run, with_value(study_.to_goal ? goal_s(run) : record(run).clocks.train_s));
  }

  // Where the time of a point went: the mean parts of its repeats, in sum the time of the point. The work is known
  // where the study has a goal and all repeats tell their epochs; else it is 0.
  std::optional<WorkerTime> time_of(const StudyPoint& point) const {
    if (point.workers <= 0) return std::nullopt;
    WorkerTime mean{.workers = point.workers, .work = 0};
    bool work_known = study_.to_goal;
    for (const size_t run : point.runs) {
      const Value seconds = study_.to_goal ? goal_s(run) : record(run).clocks.train_s, divisor = unit(run);
      const auto time = worker_time(sums(run), seconds.value_or(0), point.workers, 1);
      if (!time || !divisor) return std::nullopt;
      for (size_t i = 0; i < kTimeParts; ++i) mean.seconds[i] += time->seconds[i] / *divisor;
      mean.exact = mean.exact && time->exact;
      const Value epochs = study_.to_goal ? with_value(record(run).goal->epoch) : Value();
      work_known = work_known && epochs;
      mean.work += epochs.value_or(0) / static_cast<double>(point.runs.size());
    }
    const double scale = *point.seconds / total_of(mean.seconds);
    for (double& part : mean.seconds) part *= scale;
    if (!work_known) mean.work = 0;
    return mean;
  }

  Value billed_seconds(size_t run) const {
    if (study_.billed == BilledClock::kTrain) return seconds_of(run);
    const RunFigures figures = figures_of(record(run));
    const Value wall_s = study_.to_goal ? figures.wall_to_goal_s : figures.wall_s;
    // Data are prepared once for all runs, so the run that came first does not pay for it.
    const double prepare_s = record(run).clocks.prepare_s.value_or(0);
    return in_unit(run, with_value(wall_s ? Value(*wall_s - prepare_s) : Value()));
  }

  StudyPoint point_of(int64_t workers, const std::vector<size_t>& repeats) {
    StudyPoint point;
    point.workers = workers;
    point.runs = repeats;
    std::vector<double> train;
    for (const size_t run : repeats) {
      if (goal_s(run)) ++point.reached;
      if (const Value seconds = seconds_of(run)) point.repeats_s.push_back(*seconds);
      train.push_back(in_unit(run, record(run).clocks.train_s).value_or(0));
    }
    const std::vector<double>& times = point.repeats_s;
    const bool complete = !study_.to_goal || point.reached == std::ssize(repeats);
    point.shown = repeats[median_index(complete && times.size() == repeats.size() ? times : train)];
    if (complete && !times.empty()) {
      point.seconds = geometric_mean(times);
      point.least_s = *std::min_element(times.begin(), times.end());
      point.most_s = *std::max_element(times.begin(), times.end());
      point.compute_s = geometric_mean(values_over(
          repeats, [&](size_t run) { return in_unit(run, with_value(compute_seconds(sums(run).steps_s))); }));
      point.time = time_of(point);
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
      const Value agg = spec::find_number(record(run).steps_s, "agg");
      const Value compute = with_value(compute_seconds(record(run).steps_s));
      return agg && compute ? Value(*agg / *compute) : Value();
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
    point.billed_s = geometric_mean(values_over(point.runs, [&](size_t run) { return billed_seconds(run); }));
    if (point.billed_s) {
      const double samples = study_.to_goal ? 1 : 1000;  // seconds are per 1,000 samples, the cost per million
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
    const Value base_compute = base.compute_s;
    const StudyPoint* before = nullptr;
    for (StudyPoint& point : line.points) {
      if (!point.seconds) continue;
      const Scaling scaling = scaling_of_time(base_s, base.workers, *point.seconds, point.workers);
      point.speed_up = scaling.speed_up;
      point.efficiency = scaling.efficiency;
      if (before != nullptr) {
        point.speed_up_interval = ratio_of(base.repeats_s, point.repeats_s).value_or(RatioEstimate{}).interval;
        point.gain = ratio_of(before->repeats_s, point.repeats_s);
        point.lost = loss_of(base, point);
        if (point.gain && point.gain->interval.value_or(Interval{point.gain->ratio, 0}).low >= kKnee) {
          line.knee = point.workers;
        }
      }
      before = &point;
      if (base_compute && point.compute_s) point.compute_speed_up = *base_compute / *point.compute_s;
      if (point.cost && base_cost > 0) {
        point.price_increase = *point.cost / base_cost;
        point.price_index = price_index(*point.cost, base_cost, base_billed_s / *point.billed_s);
      }
    }
  }

  static std::optional<LostEfficiency> loss_of(const StudyPoint& base, const StudyPoint& point) {
    if (!base.time || !point.time) return std::nullopt;
    WorkerTime one = *base.time, other = *point.time;
    if (one.work <= 0 || other.work <= 0) one.work = other.work = 1;
    return lost_efficiency(one, other);
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
                                               line.points.front().runs.size() > 1 ? ", geometric mean" : "")
                                 : "none, " + line.no_baseline;
    study_.notes.push_back(fmt::format("Baseline of {}: {}", line.name, what));
  }

  const std::vector<MeasuredRun>& runs_;
  const std::vector<Conditions>& conditions_;
  const StudyOptions& options_;
  std::optional<spec::TaskSpec> official_;
  Study study_;
};

// Adds to the titles of studies that have the same title what tells them apart.
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

Study side_by_side(const std::vector<Study>& studies, const std::vector<MeasuredRun>& runs) {
  MLBENCH_CHECK(!studies.empty(), "a study to show");
  std::vector<Conditions> conditions;
  for (const MeasuredRun& run : runs) conditions.emplace_back(run.record);
  Study all = studies.front();
  all.lines.clear();
  std::vector<std::vector<size_t>> groups;
  std::set<std::string> tasks;
  for (const Study& study : studies) {
    tasks.insert(study.task);
    for (const StudyLine& line : study.lines) {
      std::vector<size_t>& group = groups.emplace_back();
      for (const StudyPoint& point : line.points) group.insert(group.end(), point.runs.begin(), point.runs.end());
      all.lines.push_back(line);
    }
  }
  const Distinction distinction =
      distinguish(conditions, groups, [](const ComparisonKey& key) { return key.kind != KeyKind::kWorkers; });
  for (size_t i = 0; i < all.lines.size(); ++i) all.lines[i].name = distinction.names[i];
  all.task = fmt::format("{}", fmt::join(tasks, ", "));
  return all;
}

PricedStudies priced_studies(const std::vector<MeasuredRun>& runs) {
  PricedStudies priced;
  priced.prices = default_prices();
  priced.worker = "n1-standard-4";
  priced.per_hour = price_of_worker(priced.prices, priced.worker, false);
  priced.price_note = price_note(priced.prices, priced.worker, false, name_of(BilledClock::kWall));
  priced.studies = make_studies(runs, {priced.per_hour, BilledClock::kWall}, priced.notes);
  return priced;
}

}  // namespace mlbench::report
