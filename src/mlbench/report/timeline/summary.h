#pragma once

// What became of the time of each rank, and what its communication was spent on. Formulas: docs/timeline.md.

#include <string>

#include "mlbench/base/json.h"
#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// The summary as JSON ($defs/summary of api/timeline.schema.json). Fills in what the operations of `run` are found to
// have waited for.
Json summarize_timeline(TimelineRun& run);

// For people. UserError when `summary` is not of that form.
std::string timeline_summary_text(const Json& summary);

}  // namespace mlbench::report
