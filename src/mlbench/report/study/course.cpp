#include "mlbench/report/study/course.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace {

// {train clock at the start, duration} of every evaluation on any split, in seconds.
std::vector<std::pair<double, double>> evaluation_times(const record::Record& record) {
  std::vector<std::pair<double, double>> times;
  for (const record::Evaluation& row : record.evaluations) {
    times.emplace_back(row.train_s.value_or(0), row.duration_s.value_or(0));
  }
  return times;
}

// Adds the value of the course's metric in `metrics`, which was known at `at_s`. A course without a metric takes the
// first one.
void take(Course& course, const record::NamedNumbers& metrics, std::optional<double> at_s) {
  if (course.metric.empty() && !metrics.empty()) course.metric = metrics.front().first;
  const auto value = spec::find_number(metrics, course.metric);
  if (value && at_s) course.evaluations.push_back({*at_s, *value});
}

}  // namespace

Course course_of(const record::Record& record) {
  Course course;
  if (record.goal) course.metric = record.goal->metric;
  course.split = record.goal && !record.goal->split.empty() ? record.goal->split : spec::kTestSplit;
  const std::vector<std::pair<double, double>> times = evaluation_times(record);
  if (course.split == spec::kTrainSplit) {
    for (const record::Epoch& epoch : record.epochs) {
      // The training metrics of an epoch are known at its last step, before the evaluation that follows.
      std::optional<double> at_s = epoch.train_s;
      for (const auto& [start_s, duration_s] : times) {
        if (at_s && start_s < *epoch.train_s) *at_s += duration_s;
      }
      take(course, epoch.metrics, at_s);
    }
  } else {
    double evaluating_s = 0;
    for (const record::Evaluation& evaluation : record.evaluations) {
      evaluating_s += evaluation.duration_s.value_or(0);
      if (evaluation.split != course.split) continue;
      std::optional<double> at_s = evaluation.elapsed_s;
      if (!at_s && evaluation.train_s) at_s = *evaluation.train_s + evaluating_s;
      take(course, evaluation.metrics, at_s);
    }
  }
  course.end_s = record.clocks.train_s.value_or(0);
  for (const auto& [start_s, duration_s] : times) course.end_s += duration_s;
  if (!course.evaluations.empty()) course.end_s = std::max(course.end_s, course.evaluations.back().at_s);
  if (record.stop_reason == "max_time") course.stopped_at_s = record.limits.max_time_s;
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

std::optional<TimedValue> value_after(const record::Record& record, double seconds) {
  return value_after(course_of(record), seconds);
}

}  // namespace mlbench::report
