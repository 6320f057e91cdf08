#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/table.h"
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
Figures<StudyPoint> study_figures(const Study& study, const std::vector<MeasuredRun>& runs,
                                  const std::string& currency) {
  using Point = StudyPoint;
  const bool to_goal = study.to_goal;
  const auto names = [&runs](const Point& point) {
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
      {"shown", [&runs](const Point& point) { return runs[point.shown].record.name; }},
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
      {"wait_share", "wait", "of train", &Point::wait_share,
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

std::string rendered(const Study& study, const Figures<StudyPoint>& figures) {
  std::vector<Column> columns = columns_of(figures);
  columns.insert(columns.begin(), Column{"line", "", Align::kLeft});
  Table table(std::move(columns));
  for (const StudyLine& line : study.lines) {
    for (const StudyPoint& point : line.points) {
      std::vector<std::string> cells = cells_of(figures, point);
      cells.insert(cells.begin(), line.name);
      table.add_row(std::move(cells));
    }
  }
  return printable_lines(table.render(), "");
}

}  // namespace

std::string answer_text(const Study& study) {
  std::string out;
  const bool several = study.lines.size() > 1;
  for (const StudyLine& line : study.lines) {
    if (several) out += line.name + ":\n";
    for (const std::string& sentence : line.answer) out += (several ? "  " : "") + sentence + "\n";
  }
  return printable_lines(out, "");
}

std::string repeats_table(const Study& study) {
  return rendered(study, chosen(study_figures(study, {}, ""), {"workers", "runs", "seconds", "seconds_interval",
                                                               "speed_up", "speed_up_interval", "efficiency"}));
}

std::string study_table(const Study& study, const std::string& currency) {
  bool alpha = false, hidden = false, interval = false;
  for (const StudyLine& line : study.lines) {
    interval = interval ||
               std::ranges::any_of(line.points, [](const auto& point) { return point.speed_up_interval.has_value(); });
    alpha = alpha || std::ranges::any_of(line.points, [](const auto& point) { return point.alpha.has_value(); });
    hidden = hidden || std::ranges::any_of(line.points, [](const auto& point) { return point.hidden_share > 0.0; });
  }
  const Figures<StudyPoint> figures =
      chosen(study_figures(study, {}, currency),
             {"workers", "runs", "seconds", "speed_up", interval ? "speed_up_interval" : "", "compute_speed_up",
              "efficiency", "communication_share", "wait_share", "transfer_share", hidden ? "hidden_share" : "",
              "communication_per_compute", "cost", "price_index", alpha ? "alpha" : ""});
  std::string notes;
  for (const std::string& note : study.notes) notes += "  " + note + "\n";
  return printable_lines(study.title + "\n", "") + answer_text(study) + "\n" + rendered(study, figures) +
         printable_lines(notes, "");
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
