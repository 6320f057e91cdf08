#include "mlbench/report/study/tuning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

namespace {

// What one run that reached the target took.
struct ToTarget {
  double steps = 0, step_s = 0;
  double seconds() const { return steps * step_s; }
};

// Empty where the run missed the target, or where its steps were not timed.
std::optional<ToTarget> to_target(const record::Record& record) {
  const record::Throughput& told = record.throughput;
  if (!record.goal || !record.goal->reached || !record.goal->step) return std::nullopt;
  if (told.median_samples_per_s.value_or(0) <= 0 || !told.samples || told.steps.value_or(0) == 0) return std::nullopt;
  const double samples_per_step = static_cast<double>(*told.samples) / static_cast<double>(*told.steps);
  return ToTarget{static_cast<double>(*record.goal->step), samples_per_step / *told.median_samples_per_s};
}

std::string settings_of(const TuneTrial& trial) {
  std::vector<std::string> words;
  for (const auto& [key, value] : trial.settings) words.push_back(key + "=" + value);
  return words.empty() ? "as the task" : fmt::format("{}", fmt::join(words, ", "));
}

std::string why_no_time(const TuneTrial& trial) {
  if (!trial.refused.empty()) return trial.refused;
  for (const record::Record& record : trial.records) {
    if (record.state != "finished") return record.state;
  }
  return trial.records.empty() ? "not run" : "missed";
}

std::optional<double> best_of(const TuneTrial& trial) {
  std::optional<double> best;
  for (const record::Record& record : trial.records) {
    if (!record.goal || !record.goal->best) continue;
    const double value = record.goal->best->value;
    const bool higher = record.goal->higher_is_better.value_or(true);
    if (!best || (higher ? value > *best : value < *best)) best = value;
  }
  return best;
}

// The times of all repeats; empty where one missed the target.
std::vector<ToTarget> times_of(const TuneTrial& trial) {
  std::vector<ToTarget> times;
  for (const record::Record& record : trial.records) {
    const auto one = to_target(record);
    if (!one || record.state != "finished") return {};
    times.push_back(*one);
  }
  return times;
}

std::vector<double> seconds_of(const TuneTrial& trial) {
  std::vector<double> seconds;
  for (const ToTarget& one : times_of(trial)) seconds.push_back(one.seconds());
  return seconds;
}

const Figures<TuneRow>& row_figures() {
  using Row = TuneRow;
  static const auto kMilliseconds = [](const Row& row) {
    return row.step_s ? fmt::format("{:.3g}", *row.step_s * 1e3) : std::string(kNone);
  };
  static const Figures<Row> kFigures = {
      {"study", "study", "", &Row::study, forms::kNumber},
      {"trial", "trial", "", &Row::trial, forms::kNumber},
      {"settings", "settings", "", &Row::settings, forms::kText},
      {"runs", &Row::runs},
      {"steps", "steps to", "target", &Row::steps, forms::kShort},
      {"step_s", "step", "ms", &Row::step_s, kMilliseconds},
      {"target_s", "time to", "target s", &Row::target_s, forms::kSeconds},
      {"best", "best", "", &Row::best, forms::kMetric},
      {"remark", "", "", &Row::remark, forms::kText},
  };
  return kFigures;
}

// The index of the winner, whose remark and those of the points as good as it are set.
std::optional<size_t> choose(const std::vector<TuneTrial>& trials, std::vector<TuneRow>& rows) {
  std::optional<size_t> least;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].target_s && (!least || *rows[i].target_s < *rows[*least].target_s)) least = i;
  }
  if (!least) return std::nullopt;
  std::vector<size_t> as_good;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].target_s) continue;
    const auto ratio = ratio_of(seconds_of(trials[i]), seconds_of(trials[*least]));
    const bool ties = i != *least && ratio && ratio->differs() == false;
    if (i == *least || ties) as_good.push_back(i);
  }
  for (const size_t i : as_good) rows[i].remark = i == as_good.front() ? "winner" : "as good as the winner";
  return as_good.front();
}

std::optional<double> positive_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

}  // namespace

Tuning analyse_tuning(const std::vector<TuneTrial>& trials) {
  Tuning tuning;
  for (const TuneTrial& trial : trials) {
    TuneRow row;
    row.study = trial.study + 1;
    row.trial = trial.trial + 1;
    row.settings = settings_of(trial);
    for (const record::Record& record : trial.records) {
      row.runs.push_back(record.name);
      if (!record.goal) continue;
      tuning.metric = record.goal->metric;
      tuning.target = record.goal->target;
    }
    tuning.repeats = std::max(tuning.repeats, std::ssize(trial.records));
    row.best = best_of(trial);
    std::vector<double> steps, step_s;
    for (const ToTarget& one : times_of(trial)) {
      steps.push_back(one.steps);
      step_s.push_back(one.step_s);
    }
    row.steps = median(steps);
    row.step_s = median(step_s);
    row.target_s = median(seconds_of(trial));
    if (!row.target_s) row.remark = why_no_time(trial);
    tuning.rows.push_back(std::move(row));
  }
  tuning.winner = choose(trials, tuning.rows);
  return tuning;
}

std::string text_of(const Tuning& tuning) {
  std::string text = table_of(row_figures(), tuning.rows).render();
  if (tuning.winner) {
    text += fmt::format("\nwinner: {} (trial {} of {}; {})\n", tuning.rows[*tuning.winner].settings, *tuning.winner + 1,
                        tuning.rows.size(),
                        tuning.repeats > 1 ? fmt::format("{} repeats", tuning.repeats)
                                           : "one repeat: no interval says which others are as good");
  } else {
    text += "\nno winner: no point reached the target\n";
  }
  return text;
}

Json to_json(const Tuning& tuning) {
  Json rows = Json::array();
  for (const TuneRow& row : tuning.rows) rows.push_back(json_of(row_figures(), row));
  return {{"metric", tuning.metric},
          {"target", figure_value(tuning.target)},
          {"repeats", tuning.repeats},
          {"trials", std::move(rows)},
          {"winner", tuning.winner ? Json(*tuning.winner + 1) : Json(nullptr)}};
}

std::string csv_of(const Tuning& tuning) {
  std::string csv = csv_heading(row_figures());
  for (const TuneRow& row : tuning.rows) csv += csv_line(row_figures(), row);
  return csv;
}

Chart chart_of(const Tuning& tuning, const std::vector<TuneTrial>& trials, const std::string& key) {
  Chart chart;
  chart.id = "tuning";
  chart.title = "Time to the target";
  chart.subtitle = tuning.target ? fmt::format("{} {:g}", tuning.metric, *tuning.target) : tuning.metric;
  chart.x_label = key;
  chart.y_label = "s";
  chart.log_x = chart.log_y = true;
  ChartSeries series{.name = "trials", .points = {}};
  for (size_t i = 0; i < trials.size(); ++i) {
    const auto setting = std::ranges::find(trials[i].settings, key, &spec::Override::key);
    if (setting == trials[i].settings.end() || !tuning.rows[i].target_s) continue;
    if (const auto x = positive_number(setting->value)) series.points.push_back({*x, *tuning.rows[i].target_s});
  }
  std::ranges::sort(series.points, {}, &ChartPoint::x);
  if (!series.points.empty()) chart.series.push_back(std::move(series));
  return chart;
}

std::string winner_file(const Tuning& tuning, const std::vector<TuneTrial>& trials, const std::string& command) {
  MLBENCH_CHECK(tuning.winner.has_value(), "no winner");
  const TuneRow& row = tuning.rows[*tuning.winner];
  std::string text = fmt::format(
      "# {}\n# {} {} in {:.0f} steps of {:.4g} s, the best of {} trials\n", printable(command), tuning.metric,
      tuning.target ? fmt::format("{:g}", *tuning.target) : "", *row.steps, *row.step_s, tuning.rows.size());
  for (const auto& [key, value] : trials[*tuning.winner].settings) text += fmt::format("{}={}\n", key, value);
  return text + fmt::format("schedule.tuned_trials={}\n", tuning.rows.size());
}

}  // namespace mlbench::report
