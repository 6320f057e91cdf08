#include "mlbench/report/draw/charts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "mlbench/report/draw/escape.h"
#include "mlbench/report/draw/step_words.h"
#include "mlbench/report/figures.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace {

// What a chart over worker counts has beside a line of each line's figure.
struct OverWorkers {
  bool linear = false;               // a guide of linear speed-up
  std::optional<double> guide = {};  // a guide at that value
  // The figure of a repeat that took so many seconds, for bars over repeats; empty: none are drawn.
  std::function<double(const StudyPoint&, double seconds)> of_seconds = {};
};

class ChartMaker {
 public:
  ChartMaker(const Study& study, const std::vector<MeasuredRun>& runs, const ChartOptions& options)
      : study_(study), runs_(runs), options_(options) {
    std::set<int64_t> counts;
    for (const StudyLine& line : study.lines) {
      for (const StudyPoint& point : line.points) counts.insert(point.workers);
    }
    counts_.assign(counts.begin(), counts.end());
    std::set<std::string> labels;
    for (const StudyLine& line : study.lines) labels.insert(line.labels.begin(), line.labels.end());
    labels_.assign(labels.begin(), labels.end());
  }

  std::vector<Chart> make() {
    const std::string time = study_.to_goal ? "Time to the goal" : "Time per 1,000 samples";
    const std::string seconds = study_.to_goal ? "seconds" : "seconds per 1,000 samples";
    const std::string baselines = "train clock, " + baseline_words();

    over_workers("total_time", time, "train clock, geometric mean of the repeats; bars: least and most", seconds,
                 &StudyPoint::seconds, {.of_seconds = [](const StudyPoint&, double seconds) { return seconds; }});
    over_workers("speedup", "Speed-up, total", baselines, "times the baseline", &StudyPoint::speed_up,
                 {.linear = true, .of_seconds = [](const StudyPoint& point, double seconds) {
                    return point.speed_up.value_or(NAN) * *point.seconds / seconds;
                  }});
    over_workers("compute_speedup", "Speed-up, computation only", baselines + "; without communication",
                 "times the baseline", &StudyPoint::compute_speed_up, {.linear = true});
    throughput();
    for (size_t i = 0; i < study_.lines.size(); ++i) step_kinds(i, seconds);
    for (size_t i = 0; i < study_.lines.size(); ++i) hidden_communication(i, seconds);
    train_loss();
    over_workers("communication_ratio", "Share of communication",
                 "communication / train clock of the whole run, median of the repeats", "communication / total",
                 &StudyPoint::communication_share);
    over_workers(
        "communication_compute_ratio", "Communication / computation",
        "computation: initialising, forward, loss, backward and optimizer, on rank 0, whole run, median of the "
        "repeats",
        "communication / computation", &StudyPoint::communication_per_compute);
    over_workers("cost", "Cost", options_.price_note,
                 options_.currency + (study_.to_goal ? "" : " per million samples"), &StudyPoint::cost);
    over_workers("price_index", "Price index",
                 fmt::format("price increase / performance increase, {} clock; below 1 distribution pays",
                             name_of(study_.billed)),
                 "index", &StudyPoint::price_index, {.guide = 1.0});
    accuracy("accuracy_epochs", "epoch", "epochs", [](const auto& row) { return row.epoch; });
    accuracy("accuracy_time", "time", "train clock, seconds", [](const auto& row) { return row.train_s; });
    return std::move(charts_);
  }

 private:
  std::string baseline_words() const {
    std::vector<std::string> words;
    for (const StudyLine& line : study_.lines) {
      if (line.no_baseline.empty()) words.push_back(line.baseline);
    }
    return words.empty() ? "no baseline" : fmt::format("baseline {}", fmt::join(words, "; "));
  }

  double index_of(int64_t workers) const {
    return static_cast<double>(std::find(counts_.begin(), counts_.end(), workers) - counts_.begin());
  }

  Chart& start(std::string id, const std::string& title, std::string subtitle, std::string x_label,
               std::string y_label) {
    Chart chart;
    chart.id = std::move(id);
    chart.title = study_.task + ": " + title;
    chart.subtitle = std::move(subtitle);
    chart.labels = labels_;
    chart.x_label = std::move(x_label);
    chart.y_label = std::move(y_label);
    return charts_.emplace_back(std::move(chart));
  }
  void drop_if_empty() {
    const auto& series = charts_.back().series;
    const bool drawn = std::any_of(series.begin(), series.end(), [](const ChartSeries& one) { return !one.guide; });
    if (!drawn) charts_.pop_back();
  }

  static ChartPoint with_bar(ChartPoint drawn, const StudyPoint& point, const OverWorkers& more) {
    if (!more.of_seconds || point.repeats_s.size() < 2 || !point.seconds) return drawn;
    const double one = more.of_seconds(point, *point.least_s), other = more.of_seconds(point, *point.most_s);
    drawn.low = std::min(one, other);
    drawn.high = std::max(one, other);
    return drawn;
  }

  void over_workers(const char* id, const std::string& title, const std::string& subtitle, const std::string& y_label,
                    const std::function<std::optional<double>(const StudyPoint&)>& figure,
                    const OverWorkers& more = {}) {
    Chart& chart = start(id, title, subtitle, "workers", y_label);
    for (const int64_t count : counts_) chart.ticks.push_back(fmt::format("{}", count));
    int64_t smallest = 0;
    for (const StudyLine& line : study_.lines) {
      ChartSeries series{line.name, {}, false};
      for (const StudyPoint& point : line.points) {
        if (const auto value = figure(point)) {
          series.points.push_back(with_bar({index_of(point.workers), *value}, point, more));
        }
      }
      if (series.points.empty()) continue;
      const int64_t first = line.points.front().workers;
      smallest = smallest == 0 ? first : std::min(smallest, first);
      chart.series.push_back(std::move(series));
    }
    if (more.linear && smallest > 0) {
      ChartSeries ideal{"linear", {}, true};
      for (const int64_t count : counts_) {
        ideal.points.push_back({index_of(count), static_cast<double>(count) / static_cast<double>(smallest)});
      }
      chart.series.push_back(std::move(ideal));
    }
    if (more.guide) {
      across(chart, fmt::format("{:g}", *more.guide), *more.guide, 0, static_cast<double>(counts_.size() - 1));
    }
    drop_if_empty();
  }

  // The linear guide of each line starts at the line's smallest worker count.
  void throughput() {
    const size_t before = charts_.size();
    over_workers("throughput", "Throughput", "samples of all workers / train clock, median of the repeats",
                 "samples per second", &StudyPoint::samples_per_s);
    if (charts_.size() == before) return;
    for (const StudyLine& line : study_.lines) {
      const StudyPoint& first = line.points.front();
      if (!first.samples_per_s || first.workers <= 0) continue;
      ChartSeries ideal{study_.lines.size() == 1 ? "linear" : "linear, " + line.name, {}, true};
      for (const StudyPoint& point : line.points) {
        const double more = static_cast<double>(point.workers) / static_cast<double>(first.workers);
        ideal.points.push_back({index_of(point.workers), *first.samples_per_s * more});
      }
      charts_.back().series.push_back(std::move(ideal));
    }
  }

  static void across(Chart& chart, const std::string& name, double y, double from, double to) {
    chart.series.push_back({name, {{from, y}, {to, y}}, true});
  }

  void step_kinds(size_t index, const std::string& seconds) {
    const StudyLine& line = study_.lines[index];
    const std::string title =
        study_.lines.size() == 1 ? "Time per kind of step" : "Time per kind of step, " + line.name;
    Chart& chart =
        start(index == 0 ? "time_for_all_phases" : fmt::format("time_for_all_phases-{}", index + 1), title,
              "rank 0, of the repeat with the median time; communication without waiting and transfer where known",
              "workers", seconds);
    chart.kind = ChartKind::kStackedBars;
    const bool exact = std::ranges::none_of(
        line.points, [](const StudyPoint& point) { return point.wait_s && !point.exchange_exact; });
    // By place in kStepWords, so that bars and legend have its order.
    std::vector<ChartSeries> kinds;
    for (const StepWord& one : kStepWords) {
      kinds.push_back({.name = std::string(one.word), .points = {}, .colour = kinds.size()});
    }
    ChartSeries &agg = kinds[colour_of_word("communication")], &wait = kinds[colour_of_word("waiting")],
                &transfer = kinds[colour_of_word("transfer")],
                &exposed = kinds[colour_of_word("exposed communication")];
    if (!exact) {
      wait.name += " (at least)";
      transfer.name += " (at most)";
    }
    for (const StudyPoint& point : line.points) {
      const auto x = static_cast<double>(chart.ticks.size());
      chart.ticks.push_back(fmt::format("{}", point.workers));
      for (ChartSeries& one : kinds) one.points.push_back({x, 0.0});
      for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
        const auto word = std::ranges::find(kStepWords, record::kStepKindNames[kind], &StepWord::kind);
        kinds[static_cast<size_t>(word - kStepWords.begin())].points.back().y = point.kinds_s[kind].value_or(0);
      }
      // Where communication runs beside the backward pass, neither wait nor transfer is a part of agg, but the exposed
      // part of both is.
      double& all = agg.points.back().y;
      const double shown = point.hides() ? point.exposed_s.value_or(0) : 0;
      const double waited = point.wait_s.value_or(0), moved = point.transfer_s.value_or(0);
      const bool within = !point.hides() && waited + moved <= all;
      wait.points.back().y = within ? waited : 0;
      transfer.points.back().y = within ? moved : 0;
      exposed.points.back().y = shown <= all ? shown : 0;
      if (within) all -= waited + moved;
      if (shown <= all) all -= shown;
    }
    for (ChartSeries& kind : kinds) {
      const bool any = std::any_of(kind.points.begin(), kind.points.end(), [](ChartPoint p) { return p.y > 0; });
      if (any) chart.series.push_back(std::move(kind));
    }
    drop_if_empty();
  }

  // Adds a chart only where some communication ran while the gradient was computed.
  void hidden_communication(size_t index, const std::string& seconds) {
    const StudyLine& line = study_.lines[index];
    if (std::ranges::none_of(line.points, &StudyPoint::hides)) return;
    const std::string title = "Communication, exposed and hidden";
    Chart& chart = start(index == 0 ? "communication_hidden" : fmt::format("communication_hidden-{}", index + 1),
                         study_.lines.size() == 1 ? title : title + ", " + line.name,
                         "rank 0, of the repeat with the median time; hidden: while the gradient was computed",
                         "workers", seconds);
    chart.kind = ChartKind::kStackedBars;
    for (const char* word : {"exposed communication", "hidden communication"}) {
      chart.series.push_back({.name = word, .points = {}, .colour = colour_of_word(word)});
    }
    for (const StudyPoint& point : line.points) {
      const auto x = static_cast<double>(chart.ticks.size());
      chart.ticks.push_back(fmt::format("{}", point.workers));
      chart.series[0].points.push_back({x, point.exposed_s.value_or(0)});
      chart.series[1].points.push_back({x, point.hidden_s.value_or(0)});
    }
  }

  std::string run_name(const StudyLine& line, const StudyPoint& point) const {
    const std::string k = fmt::format("k = {}", point.workers);
    return study_.lines.size() == 1 ? k : line.name + ", " + k;
  }

  // Adds a series for each line and worker count, with the points of the repeat that is shown.
  void over_runs(Chart& chart, const std::function<std::vector<ChartPoint>(const MeasuredRun&)>& points_of) {
    for (const StudyLine& line : study_.lines) {
      for (const StudyPoint& point : line.points) {
        ChartSeries series{run_name(line, point), points_of(runs_[point.shown]), false};
        const bool any = std::ranges::any_of(series.points, [](ChartPoint p) { return std::isfinite(p.y); });
        if (any) chart.series.push_back(std::move(series));
      }
    }
  }
  static std::pair<double, double> extent(const Chart& chart) {
    double low = INFINITY, high = -INFINITY;
    for (const ChartSeries& series : chart.series) {
      low = std::min(low, series.points.front().x);
      high = std::max(high, series.points.back().x);
    }
    return {low, high};
  }

  void train_loss() {
    Chart& chart = start("train_loss", "Training loss", "rank 0, of the repeat with the median time",
                         "train clock, seconds", "loss");
    over_runs(chart, [](const MeasuredRun& run) {
      std::vector<ChartPoint> points;
      for (const LossPoint& point : run.loss) points.push_back({point.train_s, point.loss});
      return points;
    });
    chart.from_zero = false;
    if (study_.target_loss && !chart.series.empty()) {
      const auto [low, high] = extent(chart);
      across(chart, fmt::format("target {:g}", *study_.target_loss), *study_.target_loss, std::min(low, 0.0), high);
    }
    drop_if_empty();
  }

  static bool by_x(ChartPoint a, ChartPoint b) { return a.x < b.x; }

  // `x_of` gives the x of an evaluation or an epoch.
  void accuracy(const char* id, const char* over, const char* x_label, const auto& x_of) {
    if (study_.metric.empty()) return;
    ChartSeries at_limit{"at a limit: meets no goal", {}, false, true};
    Chart& chart = start(id, fmt::format("{} on {} data over {}", study_.metric, study_.split, over),
                         "of the repeat with the median time", x_label, study_.metric);
    over_runs(chart, [&](const MeasuredRun& run) {
      std::vector<ChartPoint> points;
      const auto take = [&](const auto& row) {
        const std::optional<double> x = x_of(row), y = spec::find_number(row.metrics, study_.metric);
        if (x && y) points.push_back({*x, *y});
        return x && y && std::isfinite(*y);
      };
      if (study_.split == spec::kTrainSplit) {
        std::ranges::for_each(run.record.epochs, take);
      } else {
        for (const record::Evaluation& row : run.record.evaluations) {
          const bool finite = row.split == study_.split && take(row);
          if (finite && row.cadence == false) at_limit.points.push_back(points.back());
        }
      }
      std::stable_sort(points.begin(), points.end(), by_x);
      return points;
    });
    if (!at_limit.points.empty()) {
      std::stable_sort(at_limit.points.begin(), at_limit.points.end(), by_x);
      chart.series.push_back(std::move(at_limit));
    }
    chart.from_zero = false;
    if (study_.target && !chart.series.empty()) {
      const auto [low, high] = extent(chart);
      across(chart, fmt::format("goal {:g}", *study_.target), *study_.target, std::min(low, 0.0), high);
    }
    drop_if_empty();
  }

  const Study& study_;
  const std::vector<MeasuredRun>& runs_;
  const ChartOptions& options_;
  std::vector<int64_t> counts_;
  std::vector<std::string> labels_;  // of the runs of all lines
  std::vector<Chart> charts_;
};

}  // namespace

std::vector<Chart> charts_of(const Study& study, const std::vector<MeasuredRun>& runs, const ChartOptions& options) {
  return ChartMaker(study, runs, options).make();
}

std::vector<Chart> charts_of_all(const std::vector<Study>& studies, const std::vector<MeasuredRun>& runs,
                                 const ChartOptions& options) {
  if (studies.size() < 2) return {};
  std::vector<Chart> charts = ChartMaker(side_by_side(studies, runs), runs, options).make();
  // Times, rates, costs, losses and metrics of different tasks have no axis in common.
  static constexpr std::string_view kShared[] = {"speedup", "compute_speedup", "communication_ratio",
                                                 "communication_compute_ratio", "price_index"};
  std::erase_if(charts, [](const Chart& chart) { return std::ranges::find(kShared, chart.id) == std::end(kShared); });
  return charts;
}

bool has_bars(const ChartSeries& series) {
  return std::ranges::any_of(series.points, [](const ChartPoint& point) { return point.low.has_value(); });
}

std::string chart_csv(const Chart& chart) {
  std::map<double, std::vector<std::optional<double>>> rows;
  std::string out = csv_text(chart.x_label);
  size_t columns = 0;
  for (const ChartSeries& series : chart.series) {
    const size_t first = columns;
    const bool bars = has_bars(series);
    columns += bars ? 3 : 1;
    out += "," + csv_text(series.name);
    if (bars) out += fmt::format(",{},{}", csv_text(series.name + ", least"), csv_text(series.name + ", most"));
    for (const ChartPoint& point : series.points) {
      auto& row = rows[point.x];
      row.resize(std::max(row.size(), columns));
      row[first] = point.y;
      if (!bars) continue;
      row[first + 1] = point.low;
      row[first + 2] = point.high;
    }
  }
  out += "\n";
  for (auto& [x, row] : rows) row.resize(columns);
  for (const auto& [x, row] : rows) {
    out += chart.ticks.empty() ? fmt::format("{}", x) : csv_text(chart.ticks.at(static_cast<size_t>(x)));
    for (const auto& value : row) out += value ? fmt::format(",{}", *value) : ",";
    out += "\n";
  }
  return out;
}

}  // namespace mlbench::report
