#include "mlbench/report/study/scaling.h"

#include <algorithm>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

Scaling scaling_of_time(double baseline_s, int64_t baseline_workers, double seconds, int64_t workers) {
  return scaling_of_rate(1 / baseline_s, baseline_workers, 1 / seconds, workers);
}

Scaling scaling_of_rate(double baseline_rate, int64_t baseline_workers, double rate, int64_t workers) {
  MLBENCH_CHECK(baseline_workers > 0 && workers > 0, "worker counts are positive");
  const double speed_up = rate / baseline_rate;
  return {speed_up, speed_up * static_cast<double>(baseline_workers) / static_cast<double>(workers)};
}

namespace {

bool measured(const RunFigures& figures) {
  return !figures.shared_host && (figures.time_to_goal_s || figures.samples_per_s);
}

// Scales the runs of a line, which have more than one worker count, against those with `smallest` workers.
void scale_line(std::vector<ScaledRun>& runs, const std::vector<size_t>& line, int64_t smallest) {
  std::string names;
  std::vector<double> times, rates;
  bool all_reached = true;
  for (const size_t run : line) {
    const RunFigures& figures = runs[run].figures;
    if (figures.workers != smallest) continue;
    names += (names.empty() ? "" : ", ") + figures.name;
    if (figures.time_to_goal_s) times.push_back(*figures.time_to_goal_s);
    if (figures.samples_per_s) rates.push_back(*figures.samples_per_s);
    all_reached = all_reached && figures.time_to_goal_s.has_value();
  }
  const double baseline_time = all_reached ? median(times).value_or(0) : 0;  // 0: none
  const double baseline_rate = median(rates).value_or(0);
  for (const size_t index : line) {
    ScaledRun& run = runs[index];
    run.baseline = names;
    run.baseline_workers = smallest;
    if (const double time = run.figures.time_to_goal_s.value_or(0); baseline_time > 0 && time > 0) {
      run.to_goal = scaling_of_time(baseline_time, smallest, time, run.figures.workers);
    }
    if (const double rate = run.figures.samples_per_s.value_or(0); baseline_rate > 0 && rate > 0) {
      run.rate = scaling_of_rate(baseline_rate, smallest, rate, run.figures.workers);
    }
  }
}

// Why a run has no other to make a speed-up with: what differs from the first other run of `by_workers`.
std::string why_alone(size_t run, const std::vector<size_t>& by_workers, const std::vector<Conditions>& conditions) {
  const auto other = std::ranges::find_if(by_workers, [&](size_t one) { return one != run; });
  const std::string why =
      other == by_workers.end() ? "" : why_no_speed_up(conditions[run].differences(conditions[*other]));
  return why.empty() ? "no speed-up: no run of another number of workers" : why;
}

}  // namespace

ScaledRuns scale_runs(const std::vector<record::Record>& records) {
  ScaledRuns scaled;
  std::vector<Conditions> conditions;
  std::vector<size_t> members;  // by worker count
  std::vector<const record::Record*> compared;
  for (const record::Record& record : records) {
    const ScaledRun& run = scaled.runs.emplace_back(ScaledRun{figures_of(record), "", 0, "", {}, {}});
    conditions.emplace_back(record);
    if (run.figures.workers > 0 && measured(run.figures)) members.push_back(scaled.runs.size() - 1);
  }
  std::ranges::stable_sort(members, {}, [&](size_t run) { return scaled.runs[run].figures.workers; });
  for (const std::vector<size_t>& line : grouped_to_lines(conditions, members)) {
    const int64_t smallest = scaled.runs[line.front()].figures.workers;
    if (scaled.runs[line.back()].figures.workers > smallest) {
      scale_line(scaled.runs, line, smallest);
      for (const size_t run : line) compared.push_back(&records[run]);
    } else {
      for (const size_t run : line) scaled.runs[run].no_ratio = why_alone(run, members, conditions);
    }
  }
  std::set<std::string> baselines;
  for (ScaledRun& run : scaled.runs) {
    if (run.baseline_workers == 0 && run.no_ratio.empty()) {
      run.no_ratio = run.figures.shared_host ? "no speed-up: shared host, whose other runs changed its times"
                                             : "no speed-up: nothing was measured";
    }
    if (run.baseline_workers == 0) continue;
    baselines.insert(run.baseline);
    scaled.baseline_workers = run.baseline_workers;
    scaled.baseline_names = run.baseline;
  }
  if (baselines.size() > 1) {
    scaled.baseline_workers = 0;
    scaled.baseline_names.clear();
  }
  add_comparison_notes(compared, scaled.notes);
  return scaled;
}

}  // namespace mlbench::report
