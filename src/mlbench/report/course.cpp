#include "mlbench/report/course.h"

#include "mlbench/report/figures.h"

namespace mlbench::report {

Course course_of(const Json& record) {
  Course course;
  const std::string split = text(record, "/goal/split").empty() ? "test" : text(record, "/goal/split");
  course.metric = text(record, "/goal/metric");
  const Json rows = record.value(split == "train" ? "epochs" : "evaluations", Json::array());
  double evaluating_s = 0;
  if (rows.is_array()) {
    for (const Json& row : rows) {
      evaluating_s += number(row, "/duration_s").value_or(0);
      if (split != "train" && text(row, "/split") != split) continue;
      const Json metrics = row.value("metrics", Json::object());
      if (course.metric.empty() && !metrics.empty()) course.metric = metrics.begin().key();
      const auto value = metrics.find(course.metric);
      const auto train_s = number(row, "/train_s");
      if (value == metrics.end() || !value->is_number() || !train_s) continue;
      course.evaluations.push_back({*train_s + evaluating_s, value->get<double>()});
    }
  }
  course.end_s = number(record, "/clocks/train_s").value_or(0) + evaluating_s;
  return course;
}

std::optional<TimedValue> value_after(const Json& record, double seconds) {
  const Course course = course_of(record);
  std::optional<TimedValue> value;
  for (const Evaluation& one : course.evaluations) {
    if (one.at_s <= seconds) value = TimedValue{course.metric, one.value, one.at_s, course.end_s < seconds};
  }
  return value;
}

}  // namespace mlbench::report
