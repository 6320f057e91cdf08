#include "mlbench/report/collectives/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "mlbench/report/collectives/stalls.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

namespace {

using record::CollectiveForm;
using record::CollectiveRow;

// What tells a line of a chart from others of the same operation.
struct LineKey {
  std::string backend;
  int64_t ranks = 0;
  std::string dtype;
  std::string labels;                                // what a reader must know: "oversubscribed"
  auto operator<=>(const LineKey&) const = default;  // NOLINT(modernize-use-nullptr): taken for a comparison with 0
};
// Each such key has charts of its own.
using PlotKey = std::tuple<std::string, std::string, std::string>;  // operation, reduction, device

struct SizePoints {
  std::map<double, std::vector<double>> times_us;   // by elements
  std::map<double, std::vector<double>> bandwidth;  // GB/s, by bytes
};
using Lines = std::map<LineKey, SizePoints>;

// The form without a copy, else the other one.
const CollectiveForm* form_of(const CollectiveRow& row) {
  const CollectiveForm* in_place = row.in_place ? &*row.in_place : nullptr;
  const CollectiveForm* out_of_place = row.out_of_place ? &*row.out_of_place : nullptr;
  if (in_place == nullptr || out_of_place == nullptr) return in_place == nullptr ? out_of_place : in_place;
  return in_place->copies ? out_of_place : in_place;
}

void add_row(LineKey line, const CollectiveRow& row, std::map<PlotKey, Lines>& plots) {
  const CollectiveForm* form = form_of(row);
  if (form == nullptr || row.size_bytes <= 0 || row.dtype.empty()) return;
  const double time_us = form->iterations ? form->iterations->p50_us : form->time_us;
  if (!(time_us > 0)) return;
  const auto bytes = static_cast<double>(row.size_bytes);
  line.dtype = row.dtype;
  SizePoints& points = plots[{row.operation, row.reduction, row.device}][line];
  points.times_us[bytes / static_cast<double>(size_of(spec::dtype_named(row.dtype)))].push_back(time_us);
  // The bandwidth at the time that is shown.
  if (form->bus_bw && *form->bus_bw > 0 && form->time_us > 0) {
    points.bandwidth[bytes].push_back(*form->bus_bw * form->time_us / time_us);
  }
}

std::string known_backend(const CollectivesResult& result) {
  return result.comm_stack.empty() ? result.backend : result.comm_stack;
}

std::vector<ChartPoint> points_of(const std::map<double, std::vector<double>>& by_size) {
  std::vector<ChartPoint> points;
  for (const auto& [size, values] : by_size) points.push_back({size, median(values).value_or(0)});
  return points;
}

class CollectivesChartMaker {
 public:
  explicit CollectivesChartMaker(const std::vector<CollectivesResult>& results) {
    // Archives do not say what their back end was. Where two of them have as many ranks, their names tell them apart.
    std::map<int64_t, int> unknown;
    for (const CollectivesResult& result : results) unknown[result.workers] += known_backend(result).empty() ? 1 : 0;
    const bool by_name = std::ranges::any_of(unknown, [](const auto& ranks) { return ranks.second > 1; });
    for (const CollectivesResult& result : results) {
      std::string backend = known_backend(result);
      if (backend.empty()) backend = by_name ? result.name : "unknown back end";
      const LineKey line{backend, result.workers, "", labels_of(result)};
      for (const CollectiveRow& row : result.rows) add_row(line, row, plots_);
    }
  }

  std::vector<Chart> make() {
    for (const auto& [key, lines] : plots_) {
      std::set<std::string> backends, types;
      std::set<int64_t> ranks;
      for (const auto& [line, points] : lines) {
        backends.insert(line.backend);
        ranks.insert(line.ranks);
        types.insert(line.dtype);
      }
      one_type_ = types.size() == 1;
      if (backends.size() == 1 && ranks.size() == 1) {
        add(key, lines, backends, ranks, fmt::format("{}, k = {}", *backends.begin(), *ranks.begin()), "");
        continue;
      }
      if (backends.size() > 1) {
        for (const int64_t k : ranks) add(key, lines, backends, {k}, fmt::format("k = {}", k), fmt::format("-k{}", k));
      }
      int number = 0;
      for (const std::string& backend : backends) {
        std::set<int64_t> own;
        for (const auto& [line, points] : lines) {
          if (line.backend == backend) own.insert(line.ranks);
        }
        if (own.size() < 2) continue;  // its lines are in the charts above
        add(key, lines, {backend}, own, backend, backends.size() > 1 ? fmt::format("-{}", ++number) : "");
      }
    }
    return std::move(charts_);
  }

 private:
  void add(const PlotKey& key, const Lines& lines, const std::set<std::string>& backends,
           const std::set<int64_t>& ranks, const std::string& of, const std::string& suffix) {
    const auto& [operation, reduction, device] = key;
    const std::string name = reduction.empty() ? operation : fmt::format("{}_{}", operation, reduction);
    const std::string words = reduction.empty() ? operation : fmt::format("{} ({})", operation, reduction);
    Chart time, bandwidth;
    time.id = fmt::format("{}_{}_time{}", name, device, suffix);
    time.title = fmt::format("{}, {} tensors, {}", words, device, of);
    time.subtitle = "median of the iterations of a size; of archives their mean";
    time.x_label = "elements";
    time.y_label = "microseconds";
    bandwidth = time;
    bandwidth.id = fmt::format("{}_{}_bandwidth{}", name, device, suffix);
    bandwidth.subtitle = "bus bandwidth at that time";
    bandwidth.x_label = "bytes";
    bandwidth.y_label = "GB/s";
    for (Chart* chart : {&time, &bandwidth}) {
      chart->log_x = chart->log_y = true;
      chart->from_zero = false;
    }
    for (const auto& [line, points] : lines) {
      if (!backends.contains(line.backend) || !ranks.contains(line.ranks)) continue;
      const std::string label = label_of(line, backends.size() > 1, ranks.size() > 1);
      time.series.push_back({label, points_of(points.times_us), false});
      if (!points.bandwidth.empty()) bandwidth.series.push_back({label, points_of(points.bandwidth), false});
    }
    if (time.series.empty()) return;
    mark_stalls(time);
    charts_.push_back(std::move(time));
    if (!bandwidth.series.empty()) charts_.push_back(std::move(bandwidth));
  }

  static void mark_stalls(Chart& chart) {
    ChartSeries marks{"stalled: ten times both neighbours", {}, false, true};
    for (const ChartSeries& line : chart.series) {
      std::vector<double> times;
      for (const ChartPoint& point : line.points) times.push_back(point.y);
      for (const size_t i : stalled_among(times)) marks.points.push_back(line.points[i]);
    }
    std::ranges::stable_sort(marks.points, {}, &ChartPoint::x);
    if (!marks.points.empty()) chart.series.push_back(std::move(marks));
  }

  std::string label_of(const LineKey& line, bool several_backends, bool several_ranks) const {
    std::string label = several_backends ? line.backend : several_ranks ? fmt::format("k = {}", line.ranks) : "";
    if (label.empty() || !one_type_) label += (label.empty() ? "" : ", ") + line.dtype;
    return line.labels.empty() ? label : fmt::format("{} ({})", label, line.labels);
  }

  std::map<PlotKey, Lines> plots_;
  std::vector<Chart> charts_;
  bool one_type_ = true;
};

}  // namespace

std::vector<Chart> collectives_charts(const std::vector<CollectivesResult>& results) {
  return CollectivesChartMaker(results).make();
}

PageStudy collectives_study(std::vector<Chart> charts) {
  const Json figures = {
      {"task", "collectives"}, {"title", "Collectives"}, {"lines", Json::array()}, {"notes", Json::array()}};
  return {figures, std::move(charts)};
}

}  // namespace mlbench::report
