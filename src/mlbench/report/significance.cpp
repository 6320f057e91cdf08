#include "mlbench/report/significance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/course.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/table.h"

namespace mlbench::report {

namespace {

Sample sample_of(std::vector<double> values) {
  Sample sample;
  sample.mean = geometric_mean(values);
  sample.interval = interval_of(values);
  sample.values = std::move(values);
  return sample;
}

std::string goal_of(const Json& record) {
  return fmt::format("{}{}{} {}, goal {} {:g} on {}", text(record, "/task"),
                     text(record, "/rules").empty() ? "" : " rules ", text(record, "/rules"), text(record, "/variant"),
                     text(record, "/goal/metric"), number(record, "/goal/target").value_or(0),
                     text(record, "/goal/split"));
}

std::optional<double> communication_per_compute(const Json& record) {
  double compute = 0;
  for (const char* kind :
       {"/steps_s/init", "/steps_s/fwd_pass", "/steps_s/comp_loss", "/steps_s/backprop", "/steps_s/opt_step"}) {
    compute += number(record, kind).value_or(0);
  }
  const auto aggregation = number(record, "/steps_s/agg");
  return aggregation && compute > 0 ? std::optional(*aggregation / compute) : std::nullopt;
}

RepeatedFigures figures_of_repeats(const RepeatedRun& run, std::optional<double> after_s) {
  MLBENCH_CHECK(!run.records.empty(), "a repeated run has a record");
  RepeatedFigures figures;
  figures.name = run.name;
  figures.runs = run.records.size();
  std::vector<double> times, rates, values, ratios;
  std::set<std::string> labels;
  for (const Json& record : run.records) {
    const RunFigures one = figures_of(record);
    figures.workers = one.workers;
    if (one.time_to_goal_s) times.push_back(*one.time_to_goal_s);
    if (one.samples_per_s) rates.push_back(*one.samples_per_s);
    if (const auto ratio = communication_per_compute(record)) ratios.push_back(*ratio);
    if (const auto value = after_s ? value_after(record, *after_s) : std::nullopt) values.push_back(value->value);
    labels.insert(one.labels.begin(), one.labels.end());
    if (one.state != "finished") labels.insert(one.state);
  }
  figures.reached = times.size();
  if (figures.reached == figures.runs) figures.time_to_goal_s = sample_of(std::move(times));
  figures.samples_per_s = sample_of(std::move(rates));
  figures.value_after = sample_of(std::move(values));
  figures.communication_per_compute = sample_of(std::move(ratios));
  figures.labels.assign(labels.begin(), labels.end());
  return figures;
}

std::string with_interval(const Sample& sample, const auto& format) {
  if (!sample.mean) return std::string(kNone);
  std::string out = format(*sample.mean);
  if (sample.interval) out += fmt::format(" [{}, {}]", format(sample.interval->low), format(sample.interval->high));
  return out;
}

std::string ratio_words(const std::optional<RatioEstimate>& estimate) {
  if (!estimate) return std::string(kNone);
  std::string out = format_ratio(estimate->ratio);
  if (estimate->interval) {
    out += fmt::format(" [{}, {}]", format_ratio(estimate->interval->low), format_ratio(estimate->interval->high));
  }
  return out;
}

std::string verdict(const std::optional<RatioEstimate>& estimate, const char* more, const char* less) {
  if (!estimate) return std::string(kNone);
  const auto differs = estimate->differs();
  if (!differs) return "not known: needs repeats";
  if (!*differs) return "no difference shown";
  return estimate->ratio > 1 ? more : less;
}

}  // namespace

Significance significance_of(const std::vector<RepeatedRun>& runs, std::optional<double> after_s) {
  MLBENCH_CHECK(!runs.empty(), "a comparison has a run");
  Significance significance;
  std::set<std::string> metrics, goals;
  std::set<int64_t> counts;
  std::optional<double> latest;
  bool all_evaluated = true;
  for (const RepeatedRun& run : runs) {
    for (const Json& record : run.records) {
      const Course course = course_of(record);
      goals.insert(goal_of(record) + text(record, "/task_hash"));
      counts.insert(static_cast<int64_t>(number(record, "/workers").value_or(0)));
      if (course.evaluations.empty()) {
        all_evaluated = false;
        continue;
      }
      metrics.insert(course.metric);
      const double last = course.evaluations.back().at_s;
      latest = latest ? std::min(*latest, last) : last;
    }
  }
  significance.after_s = after_s;
  if (!after_s && all_evaluated) significance.after_s = latest;
  if (metrics.size() == 1) significance.metric = *metrics.begin();

  const bool same_goal = goals.size() == 1;
  if (!same_goal) {
    significance.notes.push_back("the runs are not of one task and goal: their times to the goal are not compared");
  }
  if (counts.size() > 1) {
    significance.notes.push_back(
        "the runs have different numbers of workers: how a task scales is drawn by mlbench charts");
  }
  for (const RepeatedRun& run : runs) {
    RepeatedFigures figures =
        figures_of_repeats(run, metrics.size() == 1 ? significance.after_s : std::optional<double>());
    if (figures.reached > 0 && figures.reached < figures.runs) {
      significance.notes.push_back(fmt::format("{}: {} of {} repeats missed the goal, so it has no time to it",
                                               figures.name, figures.runs - figures.reached, figures.runs));
    }
    if (!significance.runs.empty()) {
      const RepeatedFigures& first = significance.runs.front();
      if (same_goal) figures.time_ratio = ratio_of(figures.time_to_goal_s.values, first.time_to_goal_s.values);
      figures.rate_ratio = ratio_of(figures.samples_per_s.values, first.samples_per_s.values);
    }
    significance.runs.push_back(std::move(figures));
  }
  return significance;
}

std::string significance_text(const Significance& significance) {
  const auto seconds = [](double value) { return format_seconds(value); };
  const auto rate = [](double value) { return format_rate(value); };
  const auto metric = [](double value) { return format_metric(value); };
  const bool timed = significance.after_s && !significance.metric.empty();
  std::vector<Column> columns = {{"run", "", Align::kLeft},
                                 {"repeats", "", Align::kRight},
                                 {"workers", "", Align::kRight},
                                 {"time to goal", "s", Align::kRight},
                                 {"throughput", "samples/s", Align::kRight}};
  if (timed)
    columns.push_back({significance.metric, "after " + format_seconds(significance.after_s) + " s", Align::kRight});
  columns.push_back({"comm.", "/ compute", Align::kRight});
  columns.push_back({"notes", "", Align::kLeft});
  Table table(std::move(columns));
  for (const RepeatedFigures& one : significance.runs) {
    std::vector<std::string> cells = {one.name, fmt::format("{}", one.runs), fmt::format("{}", one.workers),
                                      one.time_to_goal_s.mean
                                          ? with_interval(one.time_to_goal_s, seconds)
                                          : fmt::format("{} of {} reached", one.reached, one.runs),
                                      with_interval(one.samples_per_s, rate)};
    if (timed) cells.push_back(with_interval(one.value_after, metric));
    cells.push_back(format_ratio(one.communication_per_compute.mean));
    cells.push_back(fmt::format("{}", fmt::join(one.labels, ", ")));
    table.add_row(std::move(cells));
  }
  std::string out = "Geometric mean of the repeats [its 95 % interval]\n" + table.render();
  if (significance.runs.size() > 1) {
    Table ratios({{"run", "", Align::kLeft},
                  {"time to goal", "", Align::kRight},
                  {"", "", Align::kLeft},
                  {"throughput", "", Align::kRight},
                  {"", "", Align::kLeft}});
    for (size_t i = 1; i < significance.runs.size(); ++i) {
      const RepeatedFigures& one = significance.runs[i];
      ratios.add_row({one.name, ratio_words(one.time_ratio), verdict(one.time_ratio, "slower", "faster"),
                      ratio_words(one.rate_ratio), verdict(one.rate_ratio, "faster", "slower")});
    }
    out += fmt::format("\nRatio to {} [95 % interval]\n", significance.runs.front().name) + ratios.render();
  }
  for (const std::string& note : significance.notes) out += "  " + note + "\n";
  return printable_lines(out, "");
}

Json to_json(const Significance& significance) {
  const auto interval = [](const std::optional<Interval>& value) {
    return value ? Json({value->low, value->high}) : Json(nullptr);
  };
  const auto sample = [&](const Sample& value) {
    return Json({{"values", value.values},
                 {"geometric_mean", value.mean ? Json(*value.mean) : Json(nullptr)},
                 {"interval", interval(value.interval)}});
  };
  const auto ratio = [&](const std::optional<RatioEstimate>& value) {
    if (!value) return Json(nullptr);
    const auto differs = value->differs();
    return Json({{"ratio", value->ratio},
                 {"interval", interval(value->interval)},
                 {"differs", differs ? Json(*differs) : Json(nullptr)}});
  };
  Json rows = Json::array();
  for (const RepeatedFigures& one : significance.runs) {
    rows.push_back({{"name", one.name},
                    {"workers", one.workers},
                    {"runs", one.runs},
                    {"reached", one.reached},
                    {"time_to_goal_s", sample(one.time_to_goal_s)},
                    {"samples_per_s", sample(one.samples_per_s)},
                    {"value_after", sample(one.value_after)},
                    {"communication_per_compute", sample(one.communication_per_compute)},
                    {"labels", one.labels},
                    {"time_to_goal_ratio", ratio(one.time_ratio)},
                    {"samples_per_s_ratio", ratio(one.rate_ratio)}});
  }
  return {{"runs", rows},
          {"metric", significance.metric},
          {"after_s", significance.after_s ? Json(*significance.after_s) : Json(nullptr)},
          {"confidence", 0.95},
          {"notes", significance.notes}};
}

}  // namespace mlbench::report
