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
      {"id", "id", "", of_record(&Record::id), forms::kNumber},
      {"name", "run", "", of_record(&Record::name), forms::kText},
      {"state", "state", "", of_record(&Record::state), forms::kText},
      {"task", "task", "", of_record(&Record::task), forms::kText},
      {"rules", of_record_or_null(&Record::rules)},
      {"variant", of_record_or_null(&Record::variant)},
      {"division", of_record(&Record::division)},
      {"workers", "workers", "", of_record(&Record::workers), forms::kNumber},
      {"threads_per_worker", "workers", "x threads", of_record(&Record::threads_per_worker), workers_by_threads,
       Align::kLeft},
      {"framework", of_record(&Record::framework)},
      {"backend", of_record(&Record::backend)},
      {"executor", of_record(&Record::executor)},
      {"repeat", of_record(&Record::repeat)},
      {"seed", of_record(&Record::seed)},
      {"created_at", "created", "UTC", of_record(&Record::created_at),
       [](const ShownRun& run) { return short_stamp(run.record.created_at); }, Align::kLeft},
      {"started_at", of_record_or_null(&Record::started_at)},
      {"finished_at", of_record_or_null(&Record::finished_at)},
      {"light", [](const ShownRun& run) { return run.record.limits.light; }},
      {"shared_host", of_figures(&RunFigures::shared_host)},
      {"labels", "notes", "", of_figures(&RunFigures::labels), forms::kList},
      {"tags", &ShownRun::tags},
      {"goal", "goal", "",
       [](const ShownRun& run) { return run.record.goal ? record::written(*run.record.goal) : Json(nullptr); },
       goal_words, Align::kLeft},
      {"time_to_goal_s", "to goal", "s", of_figures(&RunFigures::time_to_goal_s), forms::kSeconds},
      {"train_s", "train", "s", of_figures(&RunFigures::train_s), forms::kSeconds},
      {"wall_s", "wall", "s", of_figures(&RunFigures::wall_s), forms::kSeconds},
      {"energy_joules", "energy", "kJ", of_figures(&RunFigures::energy_joules),
       [](const ShownRun& run) { return format_kilojoules(run.figures.energy_joules); }},
      {"energy_to_goal_joules", "energy", "kJ to goal", of_figures(&RunFigures::energy_to_goal_joules),
       [](const ShownRun& run) { return format_kilojoules(run.figures.energy_to_goal_joules); }},
      {"samples_per_s", "throughput", "samples/s", of_figures(&RunFigures::samples_per_s), forms::kRate},
      {"accelerator_utilisation", "accel.", "of passes and waiting for data",
       of_figures(&RunFigures::accelerator_utilisation), forms::kPercent},
      {"device_read_bytes", [](const ShownRun& run) { return figure_value(run.record.storage.device_read_bytes); }},
      {"call_read_bytes", [](const ShownRun& run) { return figure_value(run.record.storage.call_read_bytes); }},
      {"communication_share", "comm.", "of train", of_figures(&RunFigures::communication_share), forms::kPercent},
      {"evaluation", "evaluation", "", of_figures(&RunFigures::evaluation), forms::kText},
      {"failure", [](const ShownRun& run) { return run.record.failure ? run.record.failure->message : ""; }},
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
