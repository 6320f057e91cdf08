#include "mlbench/report/significance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/comparison.h"
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

// Each of these in the runs that its records make: repeats that differ in a key are none.
std::vector<RepeatedRun> split_where_different(const std::vector<RepeatedRun>& runs, std::vector<std::string>& notes) {
  std::vector<RepeatedRun> split;
  for (const RepeatedRun& run : runs) {
    MLBENCH_CHECK(!run.records.empty(), "a repeated run has a record");
    const std::vector<Conditions> conditions(run.records.begin(), run.records.end());
    std::vector<size_t> members(run.records.size());
    std::iota(members.begin(), members.end(), size_t{0});
    auto groups = grouped(conditions, members, [](const ComparisonKey&) { return true; });
    std::ranges::sort(groups);
    for (const std::vector<size_t>& group : groups) {
      RepeatedRun& part = split.emplace_back(RepeatedRun{run.name, {}});
      for (const size_t member : group) part.records.push_back(run.records[member]);
      if (group.front() == 0) continue;
      part.name = part.records.front().name;
      const Keys keys = conditions[group.front()].differences(conditions[0]);
      notes.push_back(fmt::format("{} is no repeat of {}: other {}", part.name, run.name, in_words(keys)));
    }
  }
  return split;
}

std::optional<double> communication_per_compute(const record::Record& record) {
  const double compute = compute_seconds(record.steps_s).value_or(0);
  const auto aggregation = spec::find_number(record.steps_s, "agg");
  return aggregation && compute > 0 ? std::optional(*aggregation / compute) : std::nullopt;
}

// The value of `metric` on `split` after this time, where that is what the run's goal is about.
RepeatedFigures figures_of_repeats(const RepeatedRun& run, const Significance& asked) {
  RepeatedFigures figures;
  figures.name = run.name;
  figures.runs = run.records.size();
  std::vector<double> times, rates, values, ratios;
  std::set<std::string> labels;
  for (const record::Record& record : run.records) {
    const RunFigures one = figures_of(record);
    figures.repeats.push_back(one.name);
    figures.workers = one.workers;
    figures.shared_host = one.shared_host;
    if (one.time_to_goal_s) times.push_back(*one.time_to_goal_s);
    if (one.samples_per_s) rates.push_back(*one.samples_per_s);
    if (const auto ratio = communication_per_compute(record)) ratios.push_back(*ratio);
    const Course course = course_of(record);
    const bool same = asked.after_s && course.metric == asked.metric && course.split == asked.split;
    const auto value = same ? any_value_after(course, *asked.after_s) : std::nullopt;
    if (value && std::isfinite(value->value)) {
      values.push_back(value->value);
      if (value->ended) ++figures.ended;
    } else if (value) {
      ++figures.not_finite;
    }
    labels.insert(one.labels.begin(), one.labels.end());
    if (one.state != "finished") labels.insert(one.state);
  }
  figures.reached = times.size();
  if (figures.shared_host) {
    times.clear();
    rates.clear();
    ratios.clear();
  }
  if (figures.reached == figures.runs && !figures.shared_host) figures.time_to_goal_s = sample_of(std::move(times));
  figures.samples_per_s = sample_of(std::move(rates));
  if (values.size() == figures.runs && !figures.shared_host) figures.value_after = sample_of(std::move(values));
  figures.communication_per_compute = sample_of(std::move(ratios));
  figures.labels.assign(labels.begin(), labels.end());
  if (figures.ended > 0) {
    figures.labels.push_back(
        fmt::format("{}ended before {} s", figures.ended < figures.runs ? "some " : "", format_seconds(asked.after_s)));
  }
  return figures;
}

std::string with_interval(const Sample& sample, const auto& format) {
  if (!sample.mean) return std::string(kNone);
  std::string out = format(*sample.mean);
  if (sample.interval) out += fmt::format(" [{}, {}]", format(sample.interval->low), format(sample.interval->high));
  return out;
}

std::string verdict(const std::optional<RatioEstimate>& estimate, const char* more, const char* less) {
  if (!estimate) return std::string(kNone);
  const auto differs = estimate->differs();
  if (!differs) return estimate->no_spread ? "not known: equal repeats" : "not known: needs repeats";
  if (!*differs) return no_difference_words(*estimate);
  return estimate->ratio > 1 ? more : less;
}

// Ratios of one run to another, and the values that they are of.
constexpr struct {
  Sample RepeatedFigures::*sample;
  std::optional<RatioEstimate> RepeatedFigures::*ratio;
} kRatios[] = {{&RepeatedFigures::time_to_goal_s, &RepeatedFigures::time_ratio},
               {&RepeatedFigures::samples_per_s, &RepeatedFigures::rate_ratio},
               {&RepeatedFigures::value_after, &RepeatedFigures::value_ratio}};

void set_ratios(RepeatedFigures& figures, const RepeatedFigures& base) {
  size_t verdicts = 0;
  const auto estimate = [&](const auto& row, size_t among) {
    return ratio_of((figures.*row.sample).values, (base.*row.sample).values, among);
  };
  for (const auto& row : kRatios) {
    const auto alone = estimate(row, 1);
    verdicts += alone && alone->interval ? 1 : 0;
  }
  for (const auto& row : kRatios) figures.*row.ratio = estimate(row, std::max<size_t>(verdicts, 1));
}

// The latest moment at which every run whose goal is about the same has a value; empty where one never has.
std::optional<double> latest_moment(const std::vector<RepeatedRun>& runs, const Course& like) {
  std::optional<double> latest;
  for (const RepeatedRun& run : runs) {
    for (const record::Record& record : run.records) {
      const Course course = course_of(record);
      if (course.metric != like.metric || course.split != like.split) continue;
      if (course.evaluations.empty()) return std::nullopt;
      const double last = course.evaluations.back().at_s;
      latest = latest ? std::min(*latest, last) : last;
    }
  }
  return latest;
}

}  // namespace

Significance significance_of(const std::vector<RepeatedRun>& given, const SignificanceOptions& options) {
  MLBENCH_CHECK(!given.empty(), "a comparison has a run");
  Significance significance;
  const std::vector<RepeatedRun> runs = split_where_different(given, significance.notes);
  const Course first_course = course_of(runs.front().records.front());
  significance.metric = first_course.metric;
  significance.split = first_course.split;
  significance.after_s = options.after_s ? options.after_s : latest_moment(runs, first_course);

  const Conditions first(runs.front().records.front());
  std::set<int64_t> counts;
  std::vector<const record::Record*> records;
  for (const RepeatedRun& run : runs) {
    for (const record::Record& record : run.records) records.push_back(&record);
    RepeatedFigures figures = figures_of_repeats(run, significance);
    counts.insert(figures.workers);
    if (figures.reached > 0 && figures.reached < figures.runs) {
      significance.notes.push_back(fmt::format("{}: {} of {} repeats missed the goal, so it has no time to it",
                                               figures.name, figures.runs - figures.reached, figures.runs));
    }
    if (figures.not_finite > 0) {
      significance.notes.push_back(fmt::format("{}: after {} s, {} of {} of {} repeats was NaN or infinite, so no mean",
                                               figures.name, format_seconds(significance.after_s), significance.metric,
                                               figures.not_finite, figures.runs));
    }
    if (!significance.runs.empty()) {
      const RepeatedFigures& base = significance.runs.front();
      const Keys differences = Conditions(run.records.front()).differences(first);
      for (const ComparisonKey* key : differences) figures.differs_in.emplace_back(key->name);
      figures.no_ratio = why_no_ratio(differences, options.vary);
      if (figures.no_ratio.empty() && figures.shared_host) {
        figures.no_ratio = "no ratio: other runs were on its host (--share-host)";
      }
      if (figures.no_ratio.empty()) {
        set_ratios(figures, base);
      } else {
        significance.notes.push_back(fmt::format("{}: {}", figures.name, figures.no_ratio));
      }
    }
    significance.runs.push_back(std::move(figures));
  }
  if (counts.size() > 1) {
    significance.notes.push_back(
        "the runs have different numbers of workers: how a task scales is drawn by mlbench charts");
  }
  if (std::string note = version_note(records); !note.empty()) significance.notes.push_back(std::move(note));
  return significance;
}

namespace {

std::string value_heading(const Significance& significance) {
  return significance.metric + (significance.split == "train" ? ", training" : "");
}

// The runs that have a ratio to the first; "" where none has.
std::string ratios_text(const Significance& significance, bool timed) {
  std::vector<Column> columns = {{"run", "", Align::kLeft},
                                 {"time to goal", "", Align::kRight},
                                 {"", "", Align::kLeft},
                                 {"throughput", "", Align::kRight},
                                 {"", "", Align::kLeft}};
  if (timed) columns.insert(columns.end(), {{value_heading(significance), "", Align::kRight}, {"", "", Align::kLeft}});
  columns.push_back({"differs in", "", Align::kLeft});
  Table ratios(std::move(columns));
  for (size_t i = 1; i < significance.runs.size(); ++i) {
    const RepeatedFigures& one = significance.runs[i];
    if (!one.no_ratio.empty()) continue;
    std::vector<std::string> cells = {one.name, ratio_words(one.time_ratio),
                                      verdict(one.time_ratio, "slower", "faster"), ratio_words(one.rate_ratio),
                                      verdict(one.rate_ratio, "faster", "slower")};
    if (timed) {
      cells.push_back(ratio_words(one.value_ratio));
      cells.push_back(verdict(one.value_ratio, "higher", "lower"));
    }
    cells.push_back(one.differs_in.empty() ? std::string(kNone) : fmt::format("{}", fmt::join(one.differs_in, ", ")));
    ratios.add_row(std::move(cells));
  }
  if (ratios.empty()) return "";
  return fmt::format("\nRatio to {} [95 % interval of all ratios of a run together]\n",
                     significance.runs.front().name) +
         ratios.render();
}

}  // namespace

std::string ratio_words(const std::optional<RatioEstimate>& estimate) {
  if (!estimate) return std::string(kNone);
  std::string out = format_ratio(estimate->ratio);
  if (estimate->interval) {
    out += fmt::format(" [{}, {}]", format_ratio(estimate->interval->low), format_ratio(estimate->interval->high));
  }
  return out;
}

std::string no_difference_words(const RatioEstimate& estimate) {
  const auto size = estimate.shown_by_half();
  if (!size) return "no difference: all equal";
  return fmt::format("no difference shown ({:.{}f} % would show in 50 of 100)", *size * 100, *size < 0.1 ? 1 : 0);
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
    columns.push_back(
        {value_heading(significance), "after " + format_seconds(significance.after_s) + " s", Align::kRight});
  columns.push_back({"comm.", "/ compute", Align::kRight});
  columns.push_back({"notes", "", Align::kLeft});
  Table table(std::move(columns));
  for (const RepeatedFigures& one : significance.runs) {
    std::vector<std::string> cells = {one.name, fmt::format("{}", one.runs), fmt::format("{}", one.workers),
                                      one.time_to_goal_s.mean ? with_interval(one.time_to_goal_s, seconds)
                                                              : fmt::format("{} of {} reached", one.reached, one.runs),
                                      with_interval(one.samples_per_s, rate)};
    if (timed) cells.push_back(with_interval(one.value_after, metric));
    cells.push_back(format_ratio(one.communication_per_compute.mean));
    cells.push_back(fmt::format("{}", fmt::join(one.labels, ", ")));
    table.add_row(std::move(cells));
  }
  std::string out = "Geometric mean of the repeats [its 95 % interval]\n" + table.render();
  out += ratios_text(significance, timed);
  for (const std::string& note : significance.notes) out += "  " + note + "\n";
  return printable_lines(out, "");
}

Json to_json(const Significance& significance) {
  const auto interval = [](const std::optional<Interval>& value) {
    return value ? Json({value->low, value->high}) : Json(nullptr);
  };
  const auto sample = [&](const Sample& value) {
    return Json(
        {{"values", value.values}, {"geometric_mean", or_null(value.mean)}, {"interval", interval(value.interval)}});
  };
  const auto ratio = [&](const std::optional<RatioEstimate>& value) {
    if (!value) return Json(nullptr);
    const auto differs = value->differs();
    const auto shown = value->shown_by_half();
    return Json({{"ratio", value->ratio},
                 {"interval", interval(value->interval)},
                 {"differs", or_null(differs)},
                 {"no_spread", value->no_spread},
                 {"shown_by_half", or_null(shown)}});
  };
  Json rows = Json::array();
  for (const RepeatedFigures& one : significance.runs) {
    rows.push_back({{"name", one.name},
                    {"repeats", one.repeats},
                    {"workers", one.workers},
                    {"runs", one.runs},
                    {"reached", one.reached},
                    {"time_to_goal_s", sample(one.time_to_goal_s)},
                    {"samples_per_s", sample(one.samples_per_s)},
                    {"value_after", sample(one.value_after)},
                    {"ended", one.ended},
                    {"not_finite", one.not_finite},
                    {"communication_per_compute", sample(one.communication_per_compute)},
                    {"labels", one.labels},
                    {"differs_in", one.differs_in},
                    {"no_ratio", text_or_null(one.no_ratio)},
                    {"time_to_goal_ratio", ratio(one.time_ratio)},
                    {"samples_per_s_ratio", ratio(one.rate_ratio)},
                    {"value_after_ratio", ratio(one.value_ratio)}});
  }
  return {{"runs", rows},
          {"metric", significance.metric},
          {"split", significance.split},
          {"after_s", or_null(significance.after_s)},
          {"confidence", 0.95},
          {"notes", significance.notes}};
}

}  // namespace mlbench::report
