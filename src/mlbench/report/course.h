#pragma once

// The course of a run: the values of its goal's metric over its time.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct Evaluation {
  double at_s = 0;
  double value = 0;
};

struct Course {
  std::string metric;
  std::vector<Evaluation> evaluations;
  double end_s = 0;  // of all that the run did
};

// Evaluations with the time from the first batch to their end.
Course course_of(const Json& record);

// The value of the goal's metric (without a goal: of the first metric) that a run had after so many seconds, counted
// from the first batch, evaluations included: its last evaluation that had ended by then. Empty when there was none.
struct TimedValue {
  std::string metric;
  double value = 0;
  double at_s = 0;     // when that evaluation ended
  bool ended = false;  // the run had ended before
};
std::optional<TimedValue> value_after(const Json& record, double seconds);

}  // namespace mlbench::report
