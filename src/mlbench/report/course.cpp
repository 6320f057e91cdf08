#include "mlbench/report/course.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/record/measured_value.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

namespace {

Json rows_of(const Json& record, const char* list) {
  Json rows = record.value(list, Json::array());
  return rows.is_array() ? rows : Json::array();
}

// {train clock at the start, duration} of every evaluation, whatever its split.
std::vector<std::pair<double, double>> evaluation_times(const Json& record) {
  std::vector<std::pair<double, double>> times;
  for (const Json& row : rows_of(record, "evaluations")) {
    times.emplace_back(number(row, "/train_s").value_or(0), number(row, "/duration_s").value_or(0));
  }
  return times;
}

}  // namespace

Course course_of(const Json& record) {
  Course course;
  course.split = text(record, "/goal/split").empty() ? "test" : text(record, "/goal/split");
  course.metric = text(record, "/goal/metric");
  const bool of_epochs = course.split == "train";
  const std::vector<std::pair<double, double>> times = evaluation_times(record);
  const Json rows = rows_of(record, of_epochs ? "epochs" : "evaluations");
  double evaluating_s = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const auto train_s = number(row, "/train_s");
    if (of_epochs) {
      // The training metrics of an epoch are known at its last step, before the evaluation that follows.
      evaluating_s = 0;
      for (const auto& [start_s, duration_s] : times) evaluating_s += start_s < train_s.value_or(0) ? duration_s : 0;
    } else {
      evaluating_s += times[i].second;
    }
    if (!of_epochs && text(row, "/split") != course.split) continue;
    const Json metrics = row.value("metrics", Json::object());
    if (course.metric.empty() && !metrics.empty()) course.metric = metrics.begin().key();
    const auto value = metrics.find(course.metric);
    const auto elapsed_s = number(row, "/elapsed_s");
    const auto measured = value == metrics.end() ? std::nullopt : record::measured_value(*value);
    if (!measured || !(elapsed_s || train_s)) continue;
    course.evaluations.push_back({elapsed_s ? *elapsed_s : *train_s + evaluating_s, *measured});
  }
  course.end_s = number(record, "/clocks/train_s").value_or(0);
  for (const auto& [start_s, duration_s] : times) course.end_s += duration_s;
  if (!course.evaluations.empty()) course.end_s = std::max(course.end_s, course.evaluations.back().at_s);
  if (text(record, "/stop_reason") == "max_time") course.stopped_at_s = number(record, "/limits/max_time_s");
  return course;
}

std::optional<TimedValue> any_value_after(const Course& course, double seconds) {
  std::optional<TimedValue> found;
  for (const Evaluation& one : course.evaluations) {
    const bool weights_of_then = course.stopped_at_s == seconds && &one == &course.evaluations.back();
    if (one.at_s > seconds && !weights_of_then) continue;
    found = TimedValue{course.metric, one.value, one.at_s, course.end_s < seconds};
  }
  return found;
}

std::optional<TimedValue> value_after(const Course& course, double seconds) {
  const auto found = any_value_after(course, seconds);
  return found && std::isfinite(found->value) ? found : std::nullopt;
}

std::optional<TimedValue> value_after(const Json& record, double seconds) {
  return value_after(course_of(record), seconds);
}

}  // namespace mlbench::report
