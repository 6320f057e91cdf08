#include "mlbench/report/scaling.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/report/statistics.h"

namespace mlbench::report {

Scaling scaling_of_time(double baseline_s, int64_t baseline_workers, double seconds, int64_t workers) {
  return scaling_of_rate(1 / baseline_s, baseline_workers, 1 / seconds, workers);
}

Scaling scaling_of_rate(double baseline_rate, int64_t baseline_workers, double rate, int64_t workers) {
  MLBENCH_CHECK(baseline_workers > 0 && workers > 0, "worker counts are positive");
  const double speed_up = rate / baseline_rate;
  return {speed_up, speed_up * static_cast<double>(baseline_workers) / static_cast<double>(workers)};
}

ScaledRuns scale_runs(const std::vector<Json>& records) {
  ScaledRuns scaled;
  for (const Json& record : records) scaled.runs.push_back({figures_of(record), {}, {}});
  if (records.empty()) return scaled;

  const auto fewer_workers = [](const ScaledRun& a, const ScaledRun& b) {
    return a.figures.workers < b.figures.workers;
  };
  const int64_t smallest = std::min_element(scaled.runs.begin(), scaled.runs.end(), fewer_workers)->figures.workers;
  if (smallest <= 0) return scaled;
  std::vector<double> times, rates;
  bool all_reached = true;
  for (const ScaledRun& run : scaled.runs) {
    if (run.figures.workers != smallest) continue;
    if (!scaled.baseline_names.empty()) scaled.baseline_names += ", ";
    scaled.baseline_names += run.figures.name;
    if (run.figures.time_to_goal_s) times.push_back(*run.figures.time_to_goal_s);
    if (run.figures.samples_per_s) rates.push_back(*run.figures.samples_per_s);
    all_reached = all_reached && run.figures.time_to_goal_s.has_value();
  }
  scaled.baseline_workers = smallest;

  const double baseline_time = all_reached ? median(times).value_or(0) : 0;  // 0: none
  const double baseline_rate = median(rates).value_or(0);
  for (ScaledRun& run : scaled.runs) {
    const RunFigures& figures = run.figures;
    if (figures.workers <= 0) continue;
    if (const double time = figures.time_to_goal_s.value_or(0); baseline_time > 0 && time > 0) {
      run.to_goal = scaling_of_time(baseline_time, smallest, time, figures.workers);
    }
    if (const double rate = figures.samples_per_s.value_or(0); baseline_rate > 0 && rate > 0) {
      run.rate = scaling_of_rate(baseline_rate, smallest, rate, figures.workers);
    }
  }
  return scaled;
}

}  // namespace mlbench::report
