#pragma once

// The course of a run: the values of its goal's metric over time. Time is counted in seconds from the first batch,
// evaluations included.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

struct Evaluation {
  double at_s = 0;   // when the evaluation ended
  double value = 0;  // NaN: it was not finite
};

// For a run without a goal: the course of the first metric on test data.
struct Course {
  std::string metric, split;
  std::vector<Evaluation> evaluations;
  double end_s = 0;  // when the run's last step or evaluation ended
  // The seconds of `--max-time`, where it stopped the run. The last evaluation, which ended later, then shows the
  // weights of that moment.
  std::optional<double> stopped_at_s;
};

// Derives the course of a record. An evaluation ended at its evaluations[].elapsed_s. Records of scripts and of
// MLBench's dashboard lack that member: there it is the train clock plus the time of all evaluations until then.
Course course_of(const record::Record& record);

// A value that a run had after some time ("accuracy after time").
struct TimedValue {
  std::string metric;
  double value = 0;
  double at_s = 0;     // when that evaluation ended
  bool ended = false;  // the run had ended before
};
// The value of the last evaluation that had ended after `seconds`; for a run that had ended before, its last value. For
// a run that `--max-time` stopped at just that moment, it is the value of its weights then. Empty when there is none,
// and where the value was not finite: an earlier one is not what the model had then.
std::optional<TimedValue> value_after(const Course& course, double seconds);
// Returns what value_after() does, but also a value that is not finite.
std::optional<TimedValue> any_value_after(const Course& course, double seconds);
std::optional<TimedValue> value_after(const record::Record& record, double seconds);

}  // namespace mlbench::report
