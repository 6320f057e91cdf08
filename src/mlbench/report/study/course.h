#pragma once

// The course of a run: the values of its goal's metric over its time. That time is counted from the first batch,
// evaluations included.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

struct Evaluation {
  double at_s = 0;   // when it ended
  double value = 0;  // NaN: it was not finite
};

// Without a goal it is the course of the first metric on test data.
struct Course {
  std::string metric, split;
  std::vector<Evaluation> evaluations;
  double end_s = 0;  // of all that the run did
  // The run was stopped by `--max-time` of so many seconds; its last evaluation, which ended later, is that of its
  // weights at that moment.
  std::optional<double> stopped_at_s;
};

// An evaluation ended when the record says (evaluations[].elapsed_s); that of a script or of MLBench's dashboard, which
// does not say, on the train clock plus all evaluations until then.
Course course_of(const record::Record& record);

// Accuracy after time: the value of the last evaluation that had ended by then; of a run that was stopped at just that
// moment, of its weights at that moment; of a run that had ended before, its last. Empty when there is none, and
// where it was not finite: an earlier one is not what the model had then.
struct TimedValue {
  std::string metric;
  double value = 0;
  double at_s = 0;     // when that evaluation ended
  bool ended = false;  // the run had ended before
};
std::optional<TimedValue> value_after(const Course& course, double seconds);
// The same, also where it was not finite.
std::optional<TimedValue> any_value_after(const Course& course, double seconds);
std::optional<TimedValue> value_after(const record::Record& record, double seconds);

}  // namespace mlbench::report
