#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/step_words.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/sweep.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace {

std::string plural_of(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : one.ends_with("process") ? "es" : "s");
}

std::string words_of(const SweepSetting& setting) {
  return fmt::format("{} per node, {} intra-op, {} inter-op", plural_of(setting.procs_per_node, "process"),
                     plural_of(setting.intra_op, "thread"), setting.inter_op);
}

std::string efficiency_text(const SweepPoint& point) {
  const std::string percent = format_percent(point.efficiency);
  return point.efficiency && point.crowded ? "(" + percent + ")" : percent;
}

// Returns a getter: the share of `part` in a point's time.
auto share_of(TimePart part) {
  return [part](const SweepPoint& point) {
    const double total = point.time ? total_of(point.time->seconds) : 0;
    return total > 0 ? std::optional(part_of(point.time->seconds, part) / total) : std::nullopt;
  };
}

// The state of a point that has not finished, then its labels.
std::string remarks_of(const SweepPoint& point) {
  std::vector<std::string> words;
  if (!point.finished()) words.push_back(point.why.empty() ? point.state : point.state + " (" + point.why + ")");
  words.insert(words.end(), point.labels.begin(), point.labels.end());
  return fmt::format("{}", fmt::join(words, ", "));
}

// remarks_of() and, for a finished point, why it has no efficiency.
std::string remarks_over_nodes(const SweepPoint& point) {
  std::string remarks = remarks_of(point);
  if (!point.finished() || point.no_efficiency.empty()) return remarks;
  return remarks + (remarks.empty() ? "" : ", ") + point.no_efficiency;
}

Json parts_json(const SweepPoint& point) {
  Json parts = nullptr;
  for (size_t i = 0; point.time && i < kTimeParts; ++i) {
    parts[std::string(name_of(static_cast<TimePart>(i)))] = point.time->seconds[i];
  }
  return parts;
}

Json bottleneck_json(const SweepPoint& point) {
  if (!point.bottleneck) return nullptr;
  const auto& [part, share, text] = *point.bottleneck;
  return {{"part", part ? Json(name_of(*part)) : Json(nullptr)}, {"share", share}, {"text", text}};
}

const char* on_or_off(const SweepPoint& point) { return point.request.lr_scaling ? "on" : "off"; }

std::string bottleneck_text(const SweepPoint& point) {
  return point.bottleneck ? point.bottleneck->text : std::string(kNone);
}

auto of_setting(int64_t SweepSetting::*member) {
  return [member](const SweepPoint& point) { return point.request.setting.*member; };
}

// The figures of a point, in the order of JSON.
const Figures<SweepPoint>& point_figures() {
  using Point = SweepPoint;
  static const Figures<Point> kFigures = {
      {"procs_per_node", "procs/node", "", of_setting(&SweepSetting::procs_per_node), forms::kNumber},
      {"intra_op", "intra-op", "", of_setting(&SweepSetting::intra_op), forms::kNumber},
      {"inter_op", "inter-op", "", of_setting(&SweepSetting::inter_op), forms::kNumber},
      {"nodes", "nodes", "", [](const Point& point) { return point.request.nodes; }, forms::kNumber},
      {"workers", "workers", "", [](const Point& point) { return point.request.workers(); }, forms::kNumber},
      {"lr_scaling", "lr scaling", "", [](const Point& point) { return point.request.lr_scaling; }, on_or_off},
      {"runs", &Point::runs},
      {"state", &Point::state},
      {"why", &Point::why},
      {"samples_per_s", "samples/s", "", &Point::samples_per_s, forms::kRate},
      {"least", &Point::least},
      {"most", &Point::most},
      {"speed_up", "speed-up", "", &Point::speed_up, forms::kRatio},
      {"efficiency", "efficiency", "", &Point::efficiency, efficiency_text},
      {"no_efficiency", &Point::no_efficiency},
      {"crowded", &Point::crowded},
      {"seconds_per_sample", parts_json},
      {"bottleneck", "bottleneck", "", bottleneck_json, bottleneck_text, Align::kLeft},
      {"accuracy", "", "last", &Point::accuracy, forms::kMetric},
      {"best_accuracy", "", "best", &Point::best_accuracy, forms::kMetric},
      {"labels", &Point::labels},
      {"timeline", &Point::timeline},
  };
  return kFigures;
}

Section settings_section(const Sweep& sweep) {
  Figures<SweepPoint> figures = chosen(point_figures(), {"procs_per_node", "intra_op", "inter_op", "samples_per_s"});
  for (const TimePart part : {TimePart::kCompute, TimePart::kWaiting, TimePart::kCommunication, TimePart::kInput}) {
    figures.emplace_back("", std::string(name_of(part)), "", share_of(part), forms::kPercent);
  }
  const SweepPoint* best = sweep.best ? &sweep.settings[*sweep.best] : nullptr;
  const auto mark = [best](const SweepPoint& point) { return &point == best ? "*" : ""; };
  figures.emplace_back("", "best", "", mark, forms::kNumber);
  figures.emplace_back("", "remarks", "", remarks_of, forms::kText);
  return {"One node", {}, table_of(figures, sweep.settings)};
}

Section nodes_section(const Sweep& sweep) {
  Figures<SweepPoint> figures = chosen(
      point_figures(), {"nodes", "workers", "lr_scaling", "samples_per_s", "speed_up", "efficiency", "bottleneck"});
  figures.emplace_back("", "remarks", "", remarks_over_nodes, forms::kText);
  return {"Over nodes", {}, table_of(figures, sweep.nodes)};
}

// A table with a row for each number of nodes and the two ways of the learning rate side by side.
Section accuracy_section(const Sweep& sweep) {
  const std::string metric = sweep.metric.empty() ? "accuracy" : sweep.metric;
  const Figures<SweepPoint> both = chosen(point_figures(), {"accuracy", "best_accuracy"});
  std::vector<Column> columns = columns_of(chosen(point_figures(), {"nodes", "workers"}));
  std::vector<std::vector<std::string>> rows;
  for (const bool scaled : {true, false}) {
    const auto same = [&](const SweepPoint& point) { return point.request.lr_scaling == scaled; };
    if (std::ranges::none_of(sweep.nodes, same)) continue;
    for (Column column : columns_of(both)) {
      column.heading = scaled ? "lr scaled" : "lr as for one";
      column.key.clear();
      columns.push_back(std::move(column));
    }
    for (const SweepPoint& point : sweep.nodes) {
      if (!same(point)) continue;
      const std::string nodes = std::to_string(point.request.nodes);
      auto row = std::ranges::find_if(rows, [&](const auto& cells) { return cells.front() == nodes; });
      if (row == rows.end()) {
        rows.push_back({nodes, std::to_string(point.request.workers())});
        row = rows.end() - 1;
      }
      row->resize(columns.size() - both.size(), std::string(kNone));
      for (std::string& cell : cells_of(both, point)) row->push_back(std::move(cell));
    }
  }
  Table table(columns);
  for (auto& row : rows) {
    row.resize(columns.size(), std::string(kNone));
    table.add_row(std::move(row));
  }
  return {
      fmt::format("{} on {} data", metric, sweep.split.empty() ? spec::kTestSplit : sweep.split), {}, std::move(table)};
}

const Figures<SweepSteps>& steps_figures() {
  static const Figures<SweepSteps> kFigures = {
      {"nodes", "nodes", "", &SweepSteps::nodes, forms::kNumber},
      {"workers", "workers", "", &SweepSteps::workers, forms::kNumber},
      {"global_batch", "global batch", "", &SweepSteps::global_batch, forms::kCount},
      {"lr", "learning rate", "", &SweepSteps::lr, forms::kShort},
      {"steps_per_epoch", "steps/epoch", "", &SweepSteps::steps_per_epoch, forms::kCount},
      {"steps", "steps", "", &SweepSteps::steps, forms::kCount},
  };
  return kFigures;
}

// The labels of all points, each once.
std::vector<std::string> labels_of(const std::vector<SweepPoint>& points) {
  std::vector<std::string> labels;
  for (const SweepPoint& point : points) {
    for (const std::string& label : point.labels) add_label(labels, label);
  }
  return labels;
}

// Makes charts over nodes, in which the numbers of nodes are one step apart.
class NodeCharts {
 public:
  explicit NodeCharts(const Sweep& sweep) : sweep_(sweep) {
    for (const SweepPoint& point : sweep.nodes) counts_.push_back(point.request.nodes);
    std::ranges::sort(counts_);
    counts_.erase(std::unique(counts_.begin(), counts_.end()), counts_.end());
  }

  Chart start(const char* id, const std::string& title, const std::string& y_label) const {
    Chart chart;
    chart.id = id;
    chart.title = title;
    chart.subtitle = sweep_.best ? words_of(sweep_.settings[*sweep_.best].request.setting) : "";
    chart.labels = labels_of(sweep_.nodes);
    chart.x_label = "nodes";
    chart.y_label = y_label;
    for (const int64_t count : counts_) chart.ticks.push_back(std::to_string(count));
    return chart;
  }

  double place_of(const SweepPoint& point) const {
    const auto found = std::ranges::find(counts_, point.request.nodes);
    return static_cast<double>(found - counts_.begin());
  }

  // A chart with a line for each way of the learning rate.
  Chart lines(const char* id, const std::string& title, const std::string& y_label,
              const std::function<std::optional<double>(const SweepPoint&)>& value) const {
    Chart chart = start(id, title, y_label);
    for (const bool scaled : {true, false}) {
      ChartSeries series{scaled ? "lr scaled" : "lr as for one", {}, false};
      for (const SweepPoint& point : sweep_.nodes) {
        if (const auto y = value(point); y && point.request.lr_scaling == scaled) {
          series.points.push_back({place_of(point), *y});
        }
      }
      std::ranges::sort(series.points, {}, &ChartPoint::x);
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    return chart;
  }

  // Adds a guide to `chart`: the throughput of the fewest nodes, scaled up as if nothing were lost.
  void add_linear(Chart& chart) const {
    const SweepPoint* base = nullptr;
    for (const SweepPoint& point : sweep_.nodes) {
      if (point.samples_per_s && (base == nullptr || point.request.nodes < base->request.nodes)) base = &point;
    }
    if (base == nullptr) return;
    ChartSeries linear{"linear", {}, true};
    for (size_t i = 0; i < counts_.size(); ++i) {
      linear.points.push_back({static_cast<double>(i), *base->samples_per_s * static_cast<double>(counts_[i]) /
                                                           static_cast<double>(base->request.nodes)});
    }
    chart.series.push_back(std::move(linear));
  }

  Chart parts() const {
    Chart chart = start("sweep_time", "Where a worker's time for a sample goes", "milliseconds per sample");
    chart.kind = ChartKind::kStackedBars;
    // The word of a step kind that is all of the part, or most of it.
    static constexpr std::string_view kWords[kTimeParts] = {"forward", "waiting", "communication", "loading",
                                                            "metrics"};
    for (size_t part = 0; part < kTimeParts; ++part) {
      ChartSeries series{.name = std::string(name_of(static_cast<TimePart>(part))),
                         .points = {},
                         .colour = colour_of_word(kWords[part])};
      for (size_t i = 0; i < counts_.size(); ++i) {
        const auto point = std::ranges::find_if(
            sweep_.nodes, [&](const SweepPoint& one) { return one.request.nodes == counts_[i] && one.time; });
        const double y = point == sweep_.nodes.end() ? 0 : 1000 * point->time->seconds[part];
        series.points.push_back({static_cast<double>(i), y});
      }
      const bool any = std::ranges::any_of(series.points, [](ChartPoint one) { return one.y > 0; });
      if (any) chart.series.push_back(std::move(series));
    }
    return chart;
  }

 private:
  const Sweep& sweep_;
  std::vector<int64_t> counts_;
};

Chart settings_chart(const Sweep& sweep) {
  Chart chart;
  chart.id = "sweep_settings";
  chart.title = "Throughput of one node";
  chart.subtitle = "p processes, t intra-op threads of each, i inter-op threads";
  chart.labels = labels_of(sweep.settings);
  chart.x_label = "setting";
  chart.y_label = "samples/s";
  chart.kind = ChartKind::kStackedBars;
  ChartSeries series{"samples/s", {}, false};
  for (const SweepPoint& point : sweep.settings) {
    series.points.push_back({static_cast<double>(chart.ticks.size()), point.samples_per_s.value_or(0)});
    chart.ticks.push_back(short_name(point.request.setting));
  }
  if (std::ranges::any_of(series.points, [](ChartPoint one) { return one.y > 0; })) {
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::vector<Section> sections_of(const Sweep& sweep) {
  std::vector<Section> sections = {settings_section(sweep)};
  if (sweep.nodes.empty()) return sections;
  sections.push_back(nodes_section(sweep));
  sections.push_back(accuracy_section(sweep));
  return sections;
}

Section section_of(const std::vector<SweepSteps>& steps) { return {"Steps", {}, table_of(steps_figures(), steps)}; }

std::vector<std::string> findings_of(const Sweep& sweep) {
  std::vector<std::string> lines;
  if (sweep.best) {
    const SweepPoint& best = sweep.settings[*sweep.best];
    lines.push_back(fmt::format("best setting of one node: {} ({} samples/s)", words_of(best.request.setting),
                                format_rate(best.samples_per_s)));
  } else if (!sweep.settings.empty()) {
    lines.emplace_back("best setting of one node: none has finished");
  }
  const SweepPoint *largest = nullptr, *accurate = nullptr;
  for (const SweepPoint& point : sweep.nodes) {
    if (point.efficiency && (largest == nullptr || point.request.nodes > largest->request.nodes)) largest = &point;
    if (!point.timeline.empty()) {
      lines.push_back(fmt::format("timeline of {}: {}", fmt::join(point.runs, ", "), point.timeline));
    }
  }
  if (largest != nullptr) {
    lines.push_back(fmt::format("scaling efficiency at {}: {}; bottleneck: {}",
                                plural_of(largest->request.nodes, "node"), efficiency_text(*largest),
                                largest->bottleneck ? largest->bottleneck->text : "not known"));
    for (const SweepPoint& point : sweep.nodes) {
      if (point.request.nodes != largest->request.nodes || !point.best_accuracy) continue;
      if (accurate == nullptr || *point.best_accuracy > *accurate->best_accuracy) accurate = &point;
    }
  }
  if (accurate != nullptr) {
    lines.push_back(fmt::format("best {} at {}: {}, lr scaling {}", sweep.metric,
                                plural_of(accurate->request.nodes, "node"), format_metric(*accurate->best_accuracy),
                                accurate->request.lr_scaling ? "on" : "off"));
  }
  for (const std::string& note : sweep.notes) lines.push_back("note: " + note);
  return lines;
}

std::string csv_of(const Sweep& sweep) {
  Figures<SweepPoint> figures =
      chosen(point_figures(), {"procs_per_node", "intra_op", "inter_op", "nodes", "workers", "state", "samples_per_s",
                               "speed_up", "efficiency", "accuracy", "best_accuracy"});
  figures.emplace(figures.begin() + 5, "lr_scaling", on_or_off);
  for (size_t i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    figures.emplace_back(fmt::format("{}_share", name_of(part)), share_of(part));
  }
  std::string out = "stage," + csv_heading(figures);
  for (const SweepPoint& point : sweep.settings) out += "setting," + csv_line(figures, point);
  for (const SweepPoint& point : sweep.nodes) out += "nodes," + csv_line(figures, point);
  return out;
}

Json to_json(const Sweep& sweep) {
  Json settings = Json::array(), nodes = Json::array();
  for (const SweepPoint& point : sweep.settings) settings.push_back(json_of(point_figures(), point));
  for (const SweepPoint& point : sweep.nodes) nodes.push_back(json_of(point_figures(), point));
  return {{"task", sweep.task},
          {"metric", sweep.metric},
          {"split", sweep.split},
          {"settings", settings},
          {"best", sweep.best ? settings[*sweep.best] : Json(nullptr)},
          {"nodes", nodes},
          {"findings", findings_of(sweep)},
          {"notes", sweep.notes}};
}

Json to_json(const std::vector<SweepSteps>& steps) {
  Json rows = Json::array();
  for (const SweepSteps& one : steps) rows.push_back(json_of(steps_figures(), one));
  return rows;
}

std::vector<Chart> charts_of(const Sweep& sweep) {
  const NodeCharts over(sweep);
  const std::string metric = sweep.metric.empty() ? "accuracy" : sweep.metric;
  Chart throughput = over.lines("sweep_throughput", "Throughput over nodes", "samples/s", &SweepPoint::samples_per_s);
  over.add_linear(throughput);
  std::vector<Chart> charts = {settings_chart(sweep), std::move(throughput)};
  charts.push_back(over.lines("sweep_efficiency", "Scaling efficiency", "efficiency", &SweepPoint::efficiency));
  charts.push_back(over.parts());
  charts.push_back(
      over.lines("sweep_accuracy", fmt::format("Best {} over nodes", metric), metric, &SweepPoint::best_accuracy));
  charts.back().from_zero = false;
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty(); });
  return charts;
}

}  // namespace mlbench::report
