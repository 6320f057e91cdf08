#include "mlbench/home/summary.h"

#include "mlbench/base/or_null.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"

namespace mlbench::home {

Json summary_of(const record::Record& record, const report::RunNotes& notes) {
  const report::RunFigures figures = report::figures_of(record);
  const Json whole = record::to_json(record);
  Json summary;
  for (const char* key :
       {"id", "name", "state", "task", "rules", "variant", "division", "workers", "threads_per_worker", "framework",
        "backend", "executor", "repeat", "seed", "created_at", "started_at", "finished_at"}) {
    summary[key] = whole[key];
  }
  summary["light"] = record.limits.light;
  summary["labels"] = figures.labels;
  summary["tags"] = notes.tags;
  summary["goal"] = whole["goal"];
  summary["time_to_goal_s"] = or_null(figures.time_to_goal_s);
  summary["train_s"] = or_null(figures.train_s);
  summary["wall_s"] = or_null(figures.wall_s);
  summary["samples_per_s"] = or_null(figures.samples_per_s);
  summary["communication_share"] = or_null(figures.communication_share);
  summary["evaluation"] = figures.evaluation;
  summary["failure"] = record.failure ? record.failure->message : "";
  return summary;
}

}  // namespace mlbench::home
