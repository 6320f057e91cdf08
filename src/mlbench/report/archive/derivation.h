#pragma once

// What is derived from the events of both kinds of archive (result.h): the goal's outcome, the split of the time, and
// where the archive's claims differ.

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/or_null.h"
#include "mlbench/report/archive/events.h"
#include "mlbench/spec/goal.h"

namespace mlbench::report {

// The name of the series that holds a goal's values.
std::string series_of(const spec::GoalSpec& goal);

// Whether and when evaluations meet a goal.
struct Outcome {
  std::optional<size_t> met;    // index of the first evaluation that meets it
  std::optional<double> value;  // of that evaluation, else the best
};
// Judges the values of evaluations by the goal's full (not light) target. Only the first `judged` values can meet the
// goal; any value can be the best.
Outcome outcome_of(const spec::GoalSpec& goal, const std::vector<double>& values, size_t judged);

// Compares what an archive claims with what was derived, and keeps the differences.
class Claims {
 public:
  void differ(const std::string& what, const std::string& claimed, const std::string& derived) {
    differences_.push_back({{"what", what}, {"claimed", claimed}, {"derived", derived}});
  }
  template <typename T>
  void equal(const std::string& what, const T& claimed, const T& derived) {
    if (claimed != derived) differ(what, fmt::format("{}", claimed), fmt::format("{}", derived));
  }
  void equal(const std::string& what, const std::optional<double>& claimed, double derived) {
    if (claimed != derived) differ(what, claimed ? fmt::format("{}", *claimed) : "nothing", fmt::format("{}", derived));
  }
  void near(const std::string& what, double claimed, double derived, double tolerance) {
    if (!(std::abs(claimed - derived) <= tolerance + 1e-6 * std::abs(derived))) {
      differ(what, fmt::format("{}", claimed), fmt::format("{}", derived));
    }
  }
  const Json& differences() const { return differences_; }

 private:
  Json differences_ = Json::array();
};

// The sentence that official_result() of zip.h gives for derived figures; "" unless a goal was reached.
std::string official_result(const std::optional<spec::GoalSpec>& goal, bool reached, double total_s,
                            const Json& steps_s);

// The member "seconds" of a result. `total_has_batch_load` says whether the total includes that step kind.
Json split_json(double total_s, const Json& steps_s, bool total_has_batch_load, std::optional<double> train_s);

// The member "goal" of a result.
Json goal_json(const std::optional<spec::GoalSpec>& goal, const Outcome& outcome);

// These derive the result of an archive, one for each kind (result.h). derive_mlbench() needs the events to have a
// record. They throw UserError where what they need is missing or malformed, derive_mlbench() also for a run that has
// not ended.
Json derive_mlbench(const ArchiveEvents& events);
Json derive_dashboard(const ArchiveEvents& events);
// Whether the archive is one of MLBench's task 0, which is known by its series.
bool is_of_task_0(const ArchiveEvents& events);
Json derive_task_0(const ArchiveEvents& events);

}  // namespace mlbench::report
