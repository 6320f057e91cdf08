#include "mlbench/report/study/significance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/course.h"
#include "mlbench/spec/goal.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

Sample sample_of(std::vector<double> values) {
  Sample sample;
  sample.mean = geometric_mean(values);
  sample.interval = interval_of(values);
  sample.values = std::move(values);
  return sample;
}

Sample sample_of_metric(std::vector<double> values, std::string_view metric) {
  const auto bounds = spec::bounds_of(metric);
  const auto found = bounds ? bounded_mean(values, {bounds->least, bounds->greatest}) : std::nullopt;
  if (!found) return sample_of(std::move(values));
  return {std::move(values), found->mean, found->interval, true};
}

RepeatSamples samples_of(const std::vector<MeasuredRepeat>& repeats, bool shared_host) {
  RepeatSamples samples;
  samples.runs = repeats.size();
  std::vector<double> times, rates;
  for (const MeasuredRepeat& one : repeats) {
    if (one.time_to_goal_s) times.push_back(*one.time_to_goal_s);
    if (one.samples_per_s) rates.push_back(*one.samples_per_s);
  }
  samples.reached = times.size();
  if (shared_host) return samples;
  if (samples.reached == samples.runs) samples.time_to_goal_s = sample_of(std::move(times));
  samples.samples_per_s = sample_of(std::move(rates));
  return samples;
}

std::vector<RepeatedRun> split_where_different(const std::vector<RepeatedRun>& runs, std::vector<std::string>& notes) {
  std::vector<RepeatedRun> split;
  for (const RepeatedRun& run : runs) {
    MLBENCH_CHECK(!run.records.empty(), "a repeated run has a record");
    if (run.records.size() == 1) {
      split.push_back(run);  // what it ran under takes longer to say than its record to read
      continue;
    }
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

std::string with_interval(const Sample& sample, const Form& form) {
  if (!sample.mean) return std::string(kNone);
  std::string out = form.write(*sample.mean);
  if (sample.interval) {
    out += fmt::format(" [{}, {}]", form.write(sample.interval->low), form.write(sample.interval->high));
  }
  return out;
}

namespace {

std::vector<uint64_t> seeds_of(const std::vector<record::Record>& records) {
  std::vector<uint64_t> seeds;
  for (const record::Record& record : records) {
    if (!record.seed || std::ranges::count(seeds, *record.seed) > 0) return {};
    seeds.push_back(*record.seed);
  }
  return seeds;
}

std::optional<double> communication_per_compute(const record::Record& record) {
  const double compute = compute_seconds(record.steps_s).value_or(0);
  const auto aggregation = spec::find_number(record.steps_s, "agg");
  return aggregation && compute > 0 ? std::optional(*aggregation / compute) : std::nullopt;
}

// The figures of a run without its ratios. `asked` gives metric, split and moment of value_after, which stays empty for
// a run whose goal has another metric or split.
RepeatedFigures figures_of_repeats(const RepeatedRun& run, const Significance& asked) {
  RepeatedFigures figures;
  figures.name = run.name;
  figures.runs = run.records.size();
  figures.seeds = seeds_of(run.records);
  std::vector<MeasuredRepeat> measured;
  std::vector<double> values, ratios;
  std::set<std::string> labels;
  for (const record::Record& record : run.records) {
    const RunFigures one = figures_of(record);
    figures.repeats.push_back(one.name);
    figures.workers = one.workers;
    figures.shared_host = one.shared_host;
    measured.push_back({one.time_to_goal_s, one.samples_per_s});
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
  RepeatSamples samples = samples_of(measured, figures.shared_host);
  figures.reached = samples.reached;
  figures.time_to_goal_s = std::move(samples.time_to_goal_s);
  figures.samples_per_s = std::move(samples.samples_per_s);
  if (figures.shared_host) ratios.clear();
  if (values.size() == figures.runs && !figures.shared_host) {
    figures.value_after = sample_of_metric(std::move(values), asked.metric);
  }
  figures.communication_per_compute = sample_of(std::move(ratios));
  figures.labels.assign(labels.begin(), labels.end());
  if (figures.ended > 0) {
    figures.labels.push_back(
        fmt::format("{}ended before {} s", figures.ended < figures.runs ? "some " : "", format_seconds(asked.after_s)));
  }
  return figures;
}

std::string verdict(const std::optional<RatioEstimate>& estimate, const char* more, const char* less) {
  if (!estimate) return std::string(kNone);
  const auto differs = estimate->differs();
  if (!differs) return estimate->no_spread ? "not known: equal repeats" : "not known: needs repeats";
  if (!*differs) return no_difference_words(*estimate);
  return estimate->ratio > 1 ? more : less;
}

// The ratios of one run to another: name, samples that are compared, what a ratio above and below 1 means.
constexpr struct RatioRow {
  const char *key, *heading, *more, *less;
  Sample RepeatedFigures::*sample;
  std::optional<RatioEstimate> RepeatedFigures::*ratio;
} kRatios[] = {
    {"time_to_goal_ratio", "time to goal", "slower", "faster", &RepeatedFigures::time_to_goal_s,
     &RepeatedFigures::time_ratio},
    {"samples_per_s_ratio", "throughput", "faster", "slower", &RepeatedFigures::samples_per_s,
     &RepeatedFigures::rate_ratio},
    {"value_after_ratio", "", "higher", "lower", &RepeatedFigures::value_after, &RepeatedFigures::value_ratio}};

// Whether each repeat of one run has a repeat of the other with its seed, and all of them have all values that are
// compared.
bool have_pairs(const RepeatedFigures& one, const RepeatedFigures& other) {
  if (one.seeds.size() < 2 ||
      !std::is_permutation(one.seeds.begin(), one.seeds.end(), other.seeds.begin(), other.seeds.end())) {
    return false;
  }
  return std::ranges::all_of(kRatios, [&](const auto& row) {
    const size_t values = (one.*row.sample).values.size(), others = (other.*row.sample).values.size();
    return values == 0 || others == 0 || (values == one.runs && others == other.runs);
  });
}

// The values of `other` in the order of the seeds of `one`. Precondition: have_pairs().
std::vector<double> by_seeds_of(const RepeatedFigures& one, const RepeatedFigures& other,
                                const std::vector<double>& values) {
  std::vector<double> ordered;
  for (const uint64_t seed : one.seeds) {
    ordered.push_back(values.at(static_cast<size_t>(std::ranges::find(other.seeds, seed) - other.seeds.begin())));
  }
  return ordered;
}

void set_ratios(RepeatedFigures& figures, const RepeatedFigures& base) {
  size_t verdicts = 0;
  figures.paired = have_pairs(figures, base);
  const auto estimate = [&](const auto& row, size_t among) {
    const std::vector<double>&values = (figures.*row.sample).values, &others = (base.*row.sample).values;
    const bool paired = figures.paired && !values.empty() && !others.empty();
    return paired ? paired_ratio_of(values, by_seeds_of(figures, base, others), among)
                  : ratio_of(values, others, among);
  };
  for (const auto& row : kRatios) {
    const auto alone = estimate(row, 1);
    verdicts += alone && alone->interval ? 1 : 0;
  }
  for (const auto& row : kRatios) figures.*row.ratio = estimate(row, std::max<size_t>(verdicts, 1));
}

// The latest moment at which every run with the metric and split of `like` has a value; empty where one has none.
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
  add_comparison_notes(records, significance.notes);
  return significance;
}

Json to_json(const Sample& sample) {
  return {{"values", sample.values},
          {"mean", or_null(sample.mean)},
          {"mean_is", sample.is_arithmetic ? "arithmetic" : "geometric"},
          {"interval", json_of(sample.interval)}};
}

namespace {

Json ratio_json(const std::optional<RatioEstimate>& value) {
  if (!value) return nullptr;
  return {{"ratio", value->ratio},
          {"interval", json_of(value->interval)},
          {"differs", or_null(value->differs())},
          {"no_spread", value->no_spread},
          {"shown_by_half", or_null(value->shown_by_half())}};
}

std::string value_heading(const Significance& significance) {
  return significance.metric + (significance.split == spec::kTrainSplit ? ", training" : "");
}

auto sample_of_run(Sample RepeatedFigures::*sample) {
  return [sample](const RepeatedFigures& one) { return to_json(one.*sample); };
}
auto sample_words(Sample RepeatedFigures::*sample, const Form& form) {
  return [sample, form](const RepeatedFigures& one) { return with_interval(one.*sample, form); };
}

std::string time_words(const RepeatedFigures& one) {
  return one.time_to_goal_s.mean ? with_interval(one.time_to_goal_s, forms::kSeconds)
                                 : fmt::format("{} of {} reached", one.reached, one.runs);
}

// The figures of a run without its ratios, in the order of JSON.
Figures<RepeatedFigures> repeated_figures(const Significance& significance) {
  using Run = RepeatedFigures;
  const std::string after = "after " + format_seconds(significance.after_s) + " s";
  return {
      {"name", "run", "", &Run::name, forms::kText},
      {"repeats", &Run::repeats},
      {"workers", "workers", "", &Run::workers, forms::kNumber},
      {"runs", "repeats", "", &Run::runs, forms::kNumber},
      {"reached", &Run::reached},
      {"time_to_goal_s", "time to goal", "s", sample_of_run(&Run::time_to_goal_s), time_words},
      {"samples_per_s", "throughput", "samples/s", sample_of_run(&Run::samples_per_s),
       sample_words(&Run::samples_per_s, forms::kRate)},
      {"value_after", value_heading(significance), after, sample_of_run(&Run::value_after),
       sample_words(&Run::value_after, forms::kMetric)},
      {"ended", &Run::ended},
      {"not_finite", &Run::not_finite},
      {"communication_per_compute", "comm.", "/ compute", sample_of_run(&Run::communication_per_compute),
       [](const Run& one) { return format_ratio(one.communication_per_compute.mean); }},
      {"labels", "notes", "", &Run::labels, forms::kList},
      {"differs_in", "differs in", "", &Run::differs_in,
       [](const Run& one) {
         return one.differs_in.empty() ? std::string(kNone) : fmt::format("{}", fmt::join(one.differs_in, ", "));
       },
       Align::kLeft},
      {"no_ratio", [](const Run& one) { return text_or_null(one.no_ratio); }},
      {"paired_by_seed", "repeats", "", &Run::paired,
       [](const Run& one) { return one.paired ? "paired by seed" : "as groups"; }, Align::kLeft},
  };
}

// The ratios of a run; in tables each has its verdict beside it.
Figures<RepeatedFigures> ratio_figures(const Significance& significance, bool with_value) {
  Figures<RepeatedFigures> figures;
  for (const RatioRow& row : kRatios) {
    const bool of_value = row.ratio == &RepeatedFigures::value_ratio;
    if (of_value && !with_value) continue;
    const std::string heading = of_value ? value_heading(significance) : row.heading;
    const auto of = [ratio = row.ratio](const RepeatedFigures& one) { return ratio_json(one.*ratio); };
    figures.emplace_back(row.key, heading, "", of,
                         [ratio = row.ratio](const RepeatedFigures& one) { return ratio_words(one.*ratio); });
    const auto verdict_of = [row](const RepeatedFigures& one) { return verdict(one.*row.ratio, row.more, row.less); };
    figures.emplace_back("", "", "", verdict_of, forms::kText);
  }
  return figures;
}

// The runs that have a ratio to the first run; empty where none has.
std::optional<Section> ratios_section(const Significance& significance, bool timed) {
  const Figures<RepeatedFigures> all = repeated_figures(significance);
  Figures<RepeatedFigures> figures = ratio_figures(significance, timed);
  figures.insert(figures.begin(), chosen(all, {"name"}).front());
  std::vector<RepeatedFigures> compared(significance.runs.begin() + 1, significance.runs.end());
  std::erase_if(compared, [](const RepeatedFigures& one) { return !one.no_ratio.empty(); });
  const bool paired = std::ranges::any_of(compared, &RepeatedFigures::paired);
  for (auto& figure : chosen(all, {paired ? "paired_by_seed" : "", {"differs_in", 1}})) figures.push_back(figure);
  if (compared.empty()) return std::nullopt;
  return Section{
      fmt::format("Ratio to {} [95 % interval of all ratios of a run together]", significance.runs.front().name),
      {},
      table_of(figures, compared)};
}

// The title of the first table, which says which means are no geometric ones.
std::string means_title(const Significance& significance) {
  const auto bounds = spec::bounds_of(significance.metric);
  const bool bounded =
      std::ranges::any_of(significance.runs, [](const auto& run) { return run.value_after.is_arithmetic; });
  if (!bounds || !bounded) return "Geometric mean of the repeats [its 95 % interval]";
  return fmt::format("Geometric mean of the repeats [its 95 % interval]; of {} arithmetic, between {} and {}",
                     significance.metric, bounds->least, bounds->greatest);
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

std::string significance_text(const Significance& significance, const TableStyle& style) {
  const bool timed = significance.after_s && !significance.metric.empty();
  const Figures<RepeatedFigures> figures = chosen(repeated_figures(significance), {"name",
                                                                                   {"runs", 1},
                                                                                   {"workers", 2},
                                                                                   "time_to_goal_s",
                                                                                   {"samples_per_s", 1},
                                                                                   {timed ? "value_after" : "", 1},
                                                                                   {"communication_per_compute", 3},
                                                                                   "labels"});
  std::vector<Section> sections = {{means_title(significance), {}, table_of(figures, significance.runs)}};
  if (auto ratios = ratios_section(significance, timed)) sections.push_back(std::move(*ratios));
  sections.back().notes = significance.notes;
  return written(sections, style);
}

Json to_json(const Significance& significance) {
  const Figures<RepeatedFigures> figures = repeated_figures(significance), ratios = ratio_figures(significance, true);
  Json rows = Json::array();
  for (const RepeatedFigures& one : significance.runs) {
    rows.push_back(json_of(figures, one));
    rows.back().update(json_of(ratios, one));
  }
  return {{"runs", rows},
          {"metric", significance.metric},
          {"split", significance.split},
          {"after_s", or_null(significance.after_s)},
          {"confidence", 0.95},
          {"notes", significance.notes}};
}

Json words_json(const Significance& significance) {
  const Figures<RepeatedFigures> figures = repeated_figures(significance);
  Json rows = Json::array();
  for (const RepeatedFigures& one : significance.runs) {
    Json& words = rows.emplace_back(Json::object());
    for (const auto& figure : figures) {
      if (figure.cell) words[figure.key] = figure.cell(one);
    }
    for (const RatioRow& row : kRatios) {
      const auto& ratio = one.*row.ratio;
      words[row.key] =
          ratio ? fmt::format("{}, {}", ratio_words(ratio), verdict(ratio, row.more, row.less)) : std::string(kNone);
    }
  }
  return rows;
}

}  // namespace mlbench::report
