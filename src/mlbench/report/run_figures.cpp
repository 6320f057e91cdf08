#include "mlbench/report/run_figures.h"

#include <fmt/format.h>

#include "mlbench/base/or_null.h"
#include "mlbench/record/record_fields.h"

namespace mlbench::report {

namespace {

auto of_record(auto record::Record::*member) {
  return [member](const ShownRun& run) { return figure_value(run.record.*member); };
}
auto of_record_or_null(std::string record::Record::*text) {
  return [text](const ShownRun& run) { return text_or_null(run.record.*text); };
}
auto of_figures(auto RunFigures::*member) {
  return [member](const ShownRun& run) { return figure_value(run.figures.*member); };
}

std::string workers_by_threads(const ShownRun& run) {
  return fmt::format("{} x {}", run.figures.workers, run.figures.threads_per_worker);
}

std::string goal_words(const ShownRun& run) {
  if (run.record.division == "throughput") return "none";
  if (!run.record.goal) return std::string(kNone);
  return run.record.goal->reached ? "reached" : "not reached";
}

}  // namespace

const Figures<ShownRun>& run_figures() {
  using record::Record;
  static const Figures<ShownRun> kFigures = {
      {Named("id", "Number"), "id", "", of_record(&Record::id), forms::kNumber},
      {"name", "run", "", of_record(&Record::name), forms::kText},
      {Named("state", "State"), "state", "", of_record(&Record::state), forms::kText},
      {Named("task", "Task"), "task", "", of_record(&Record::task), forms::kText},
      {"rules", of_record_or_null(&Record::rules)},
      {"variant", of_record_or_null(&Record::variant)},
      {Named("workers", "Workers"), "workers", "", of_record(&Record::workers), forms::kNumber},
      {Named("threads_per_worker", "Threads per worker"), "workers", "x threads",
       of_record(&Record::threads_per_worker), workers_by_threads, Align::kLeft, forms::kNumber},
      {Named("framework", "Framework"), of_record(&Record::framework)},
      {Named("backend", "Backend"), of_record(&Record::backend)},
      {Named("executor", "Executor"), of_record(&Record::executor)},
      {Named("division", "Division"), of_record(&Record::division)},
      {"shared_host", of_figures(&RunFigures::shared_host)},
      {"labels", "notes", "", of_figures(&RunFigures::labels), forms::kList},
      {"tags", &ShownRun::tags},
      {Named("goal", "Goal"), "goal", "",
       [](const ShownRun& run) { return run.record.goal ? record::written(*run.record.goal) : Json(nullptr); },
       goal_words, Align::kLeft},
      {Named("time_to_goal_s", "Time to goal"), "to goal", "s", of_figures(&RunFigures::time_to_goal_s),
       forms::kSeconds},
      {Named("train_s", "Train clock"), "train", "s", of_figures(&RunFigures::train_s), forms::kSeconds},
      {Named("wall_s", "Wall clock"), "wall", "s", of_figures(&RunFigures::wall_s), forms::kSeconds},
      {Named("energy_joules", "Energy"), "energy", "kJ", of_figures(&RunFigures::energy_joules), forms::kKilojoules},
      {Named("energy_to_goal_joules", "Energy to goal"), "energy", "kJ to goal",
       of_figures(&RunFigures::energy_to_goal_joules), forms::kKilojoules},
      {Named("samples_per_s", "Samples/s"), "throughput", "samples/s", of_figures(&RunFigures::samples_per_s),
       forms::kRate},
      {Named("accelerator_utilisation", "Accelerator utilisation"), "accel.", "of passes and waiting for data",
       of_figures(&RunFigures::accelerator_utilisation), forms::kPercent},
      {Named("device_read_bytes", "Device read bytes"),
       [](const ShownRun& run) { return figure_value(run.record.storage.device_read_bytes); }, forms::kCount},
      {Named("call_read_bytes", "Call read bytes"),
       [](const ShownRun& run) { return figure_value(run.record.storage.call_read_bytes); }, forms::kCount},
      {Named("object_bytes", "Object store bytes"),
       [](const ShownRun& run) { return figure_value(run.record.storage.bytes); }, forms::kCount},
      {Named("object_cache_bytes", "Object cache bytes"),
       [](const ShownRun& run) { return figure_value(run.record.storage.cache_bytes); }, forms::kCount},
      {Named("ring_empty_share", "Ring found empty"), of_figures(&RunFigures::ring_empty_share), forms::kPercent},
      {Named("communication_share", "Communication"), "comm.", "of train", of_figures(&RunFigures::communication_share),
       forms::kPercent},
      {Named("evaluation", "Last evaluation"), "evaluation", "", of_figures(&RunFigures::evaluation), forms::kText},
      {Named("failure", "Failure"),
       [](const ShownRun& run) { return run.record.failure ? run.record.failure->message : ""; }},
      {Named("light", "Light goal"), [](const ShownRun& run) { return run.record.limits.light; }},
      {Named("seed", "Seed"), of_record(&Record::seed), forms::kNumber},
      {Named("repeat", "Repeat"), of_record(&Record::repeat), forms::kNumber},
      {Named("created_at", "Made"), "created", "UTC", of_record(&Record::created_at), forms::kStamp},
      {Named("started_at", "Started"), of_record_or_null(&Record::started_at), forms::kStamp},
      {Named("finished_at", "Ended"), of_record_or_null(&Record::finished_at), forms::kStamp},
  };
  return kFigures;
}

const Figures<record::Goal>& goal_figures() {
  using record::Goal;
  static const Figures<Goal> kFigures = {
      {Named("metric", "Metric of the goal"), &Goal::metric},
      {Named("target", "Target"), &Goal::target, forms::kNumber},
      {Named("value", "Value for the goal"), &Goal::value, forms::kMetric},
      {Named("epoch", "Epoch of the goal"), &Goal::epoch, forms::kShort},
  };
  return kFigures;
}

std::string summaries_table(const std::vector<Json>& summaries, const std::vector<ShownKey>& keys,
                            const TableStyle& style) {
  Figures<Json> figures;
  for (const Figure<ShownRun>& one : chosen(run_figures(), keys)) {
    const auto get = [key = one.key](const Json& run) { return run.value(key, Json(nullptr)); };
    figures.emplace_back(one.key, one.heading, one.unit, get, one.form);
    figures.back().rank = one.rank;
  }
  return table_of(figures, summaries).render(style);
}

}  // namespace mlbench::report
