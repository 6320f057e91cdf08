#include "mlbench/master/tracked_runs.h"

#include <map>

#include "mlbench/base/or_null.h"
#include "mlbench/home/summary.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/run_list.h"
#include "mlbench/record/record.h"

namespace mlbench::master {

namespace {

// MLflow's status as a state of runs here.
std::string_view state_of_status(const std::string& status) {
  using record::RunState;
  static const std::map<std::string, RunState> kStates = {{"RUNNING", RunState::kRunning},
                                                          {"SCHEDULED", RunState::kQueued},
                                                          {"FINISHED", RunState::kFinished},
                                                          {"FAILED", RunState::kFailed},
                                                          {"KILLED", RunState::kStopped}};
  return record::name_of(kStates.at(status));
}

std::string date_of(int64_t time_ms) { return format_date(time_ms * 1000, Fraction::kSix); }

}  // namespace

std::vector<store::IndexedRun> tracked_runs(const store::Tracking& tracking) {
  std::map<int64_t, std::string> experiments;
  for (const store::Experiment& experiment : tracking.experiments()) experiments[experiment.id] = experiment.name;
  std::vector<store::IndexedRun> runs;
  for (const store::TrackedRun& run : tracking.heads()) {
    const std::string& experiment = experiments[run.experiment];
    const Json summary = {{"id", nullptr},
                          {"name", "mlflow:" + run.id},
                          {"title", run.name},
                          {"state", state_of_status(run.status)},
                          {"created_at", date_of(run.start_ms)},
                          {"started_at", date_of(run.start_ms)},
                          {"finished_at", run.end_ms ? Json(date_of(*run.end_ms)) : Json(nullptr)},
                          {"experiment", experiment},
                          {"experiment_id", std::to_string(run.experiment)},
                          {"labels", {"mlflow"}}};
    runs.push_back(indexed_run(summary, home::words_of(summary, {}) + run.name + "\n" + experiment + "\n" + run.user));
  }
  return runs;
}

}  // namespace mlbench::master
