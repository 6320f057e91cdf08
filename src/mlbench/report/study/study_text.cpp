#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "mlbench/base/or_null.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/study/study.h"

namespace mlbench::report {

namespace {

Json gain_interval_json(const StudyPoint& point) {
  if (!point.gain || !point.gain->interval) return nullptr;
  return json_of(Interval{point.gain->interval->low - 1, point.gain->interval->high - 1});
}
std::string interval_words(const std::optional<Interval>& interval) {
  return interval ? fmt::format("{:.2f} to {:.2f}", interval->low, interval->high) : std::string(kNone);
}

// The figures of a point, in the order of JSON.
Figures<StudyPoint> study_figures(const Study& study, std::span<const MeasuredRun> runs, const std::string& currency) {
  using Point = StudyPoint;
  const bool to_goal = study.to_goal;
  // Tables are made without the runs, and count them.
  const auto names = [runs](const Point& point) {
    if (runs.empty()) return Json(point.runs.size());
    Json list = Json::array();
    for (const size_t run : point.runs) list.push_back(runs[run].record.name);
    return list;
  };
  const auto seconds = [to_goal](const Point& point) {
    return to_goal && !point.seconds ? "not reached" : format_seconds(point.seconds);
  };
  const auto kinds = [](const Point& point) {
    Json found = Json::object();
    for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
      found[std::string(record::kStepKindNames[kind])] = or_null(point.kinds_s[kind]);
    }
    return found;
  };
  return {
      {"workers", "k", "", &Point::workers, forms::kNumber},
      {"runs", "runs", "", names, [](const Point& point) { return std::to_string(point.runs.size()); }},
      {"shown", [runs](const Point& point) { return runs[point.shown].record.name; }},
      {"reached", &Point::reached},
      {"seconds", to_goal ? "time to goal" : "time", to_goal ? "s" : "s/1000 samples", &Point::seconds, seconds},
      {"seconds_interval", "time", "95 %", [](const Point& point) { return json_of(interval_of(point.repeats_s)); },
       [](const Point& point) {
         const auto interval = point.seconds ? interval_of(point.repeats_s) : std::nullopt;
         return interval ? fmt::format("{} to {}", format_seconds(interval->low), format_seconds(interval->high))
                         : std::string(kNone);
       }},
      {"least_s", &Point::least_s},
      {"most_s", &Point::most_s},
      {"compute_s", &Point::compute_s},
      {"samples_per_s", &Point::samples_per_s},
      {"speed_up", "speed-up", "total", &Point::speed_up, forms::kRatio},
      {"speed_up_interval", "speed-up", "95 %", [](const Point& point) { return json_of(point.speed_up_interval); },
       [](const Point& point) { return interval_words(point.speed_up_interval); }},
      {"gain", [](const Point& point) { return point.gain ? Json(point.gain->ratio - 1) : Json(nullptr); }},
      {"gain_interval", [](const Point& point) { return gain_interval_json(point); }},
      {"lost_efficiency", [](const Point& point) { return point.lost ? to_json(*point.lost) : Json(nullptr); }},
      {"efficiency", "efficiency", "", &Point::efficiency, forms::kPercent},
      {"compute_speed_up", "speed-up", "compute", &Point::compute_speed_up, forms::kRatio},
      {"communication_share", "comm.", "of train", &Point::communication_share, forms::kPercent},
      {"communication_per_compute", "comm.", "/ compute", &Point::communication_per_compute, forms::kRatio},
      {"wait_share", "waiting", "of train", &Point::wait_share,
       [](const Point& point) { return format_wait(point.wait_share, point.exchange_exact); }},
      {"transfer_share", "transfer", "of train", &Point::transfer_share,
       [](const Point& point) { return format_transfer(point.transfer_share, point.exchange_exact); }},
      {"exchange_exact", &Point::exchange_exact},
      {"hidden_share", "hidden", "of train", &Point::hidden_share, forms::kPercent},
      {"steps_s", kinds},
      {"wait_s", &Point::wait_s},
      {"transfer_s", &Point::transfer_s},
      {"exposed_s", &Point::exposed_s},
      {"hidden_s", &Point::hidden_s},
      {"billed_s", &Point::billed_s},
      {"cost", "cost", currency + (to_goal ? "" : "/million samples"), &Point::cost, forms::kSeconds},
      {"price_increase", &Point::price_increase},
      {"price_index", "price", "index", &Point::price_index, forms::kRatio},
      {"alpha", "alpha", "", &Point::alpha, forms::kShort},
  };
}

Table table_of_lines(const Study& study, const Figures<StudyPoint>& figures) {
  std::vector<Column> columns = columns_of(figures);
  columns.insert(columns.begin(), Column{"line", "", Align::kLeft});
  Table table(std::move(columns));
  for (const StudyLine& line : study.lines) {
    for (const StudyPoint& point : line.points) {
      std::vector<std::string> cells = cells_of(figures, point);
      std::vector<Json> values = values_of(figures, point);
      cells.insert(cells.begin(), line.name);
      values.insert(values.begin(), line.name);
      table.add_row(std::move(cells), std::move(values));
    }
  }
  return table;
}

}  // namespace

std::vector<std::string> answer_lines(const Study& study) {
  std::vector<std::string> lines;
  const bool several = study.lines.size() > 1;
  for (const StudyLine& line : study.lines) {
    if (several) lines.push_back(line.name + ":");
    for (const std::string& sentence : line.answer) lines.push_back((several ? "  " : "") + sentence);
  }
  return lines;
}

Table repeats_table(const Study& study) {
  return table_of_lines(study, chosen(study_figures(study, {}, ""), {"workers", "runs", "seconds", "seconds_interval",
                                                                     "speed_up", "speed_up_interval", "efficiency"}));
}

Section section_of(const Study& study, const std::string& currency) {
  bool alpha = false, hidden = false, interval = false;
  for (const StudyLine& line : study.lines) {
    interval = interval ||
               std::ranges::any_of(line.points, [](const auto& point) { return point.speed_up_interval.has_value(); });
    alpha = alpha || std::ranges::any_of(line.points, [](const auto& point) { return point.alpha.has_value(); });
    hidden = hidden || std::ranges::any_of(line.points, [](const auto& point) { return point.hidden_share > 0.0; });
  }
  const Figures<StudyPoint> figures =
      chosen(study_figures(study, {}, currency), {"workers",
                                                  {"runs", 3},
                                                  "seconds",
                                                  "speed_up",
                                                  {interval ? "speed_up_interval" : "", 2},
                                                  {"compute_speed_up", 5},
                                                  "efficiency",
                                                  {"communication_share", 1},
                                                  {"wait_share", 4},
                                                  {"transfer_share", 4},
                                                  {hidden ? "hidden_share" : "", 4},
                                                  {"communication_per_compute", 5},
                                                  {"cost", 2},
                                                  {"price_index", 3},
                                                  {alpha ? "alpha" : "", 4}});
  return {study.title, answer_lines(study), table_of_lines(study, figures), study.notes};
}

Json to_json(const Study& study, const std::vector<MeasuredRun>& runs) {
  const Figures<StudyPoint> figures = study_figures(study, runs, "");
  Json lines = Json::array();
  for (const StudyLine& line : study.lines) {
    Json points = Json::array();
    for (const StudyPoint& point : line.points) points.push_back(json_of(figures, point));
    lines.push_back({{"name", line.name},
                     {"baseline", line.no_baseline.empty() ? Json(line.baseline) : Json(nullptr)},
                     {"labels", line.labels},
                     {"answer", line.answer},
                     {"knee", or_null(line.knee)},
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
