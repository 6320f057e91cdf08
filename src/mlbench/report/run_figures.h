#pragma once

// What lists tell of a run: the members of its summary (RunSummary in api/openapi.json) and the columns of tables and
// of the page.

#include <string>
#include <vector>

#include "mlbench/record/record.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

struct ShownRun {
  const record::Record& record;
  RunFigures figures;
  std::vector<std::string> tags = {};
};

// All figures of a run in the order of its summary.
const Figures<ShownRun>& run_figures();
// Those members of a run's goal by which lists are ordered, and which they show.
const Figures<record::Goal>& goal_figures();

// A table with the columns `keys`, of runs whose summaries are given, as a master sends them. Figures that a summary
// lacks are null.
std::string summaries_table(const std::vector<Json>& summaries, const std::vector<ShownKey>& keys,
                            const TableStyle& style = {});

}  // namespace mlbench::report
