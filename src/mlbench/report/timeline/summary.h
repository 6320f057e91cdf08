#pragma once

// Sums up where the time of each rank and of its communication went. docs/timeline.md has the formulas.

#include <string>

#include "mlbench/base/json.h"
#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// The summary as JSON ($defs/summary of api/timeline.schema.json). Fills in `run` as account_for() does.
Json summarize_timeline(TimelineRun& run);

// Such a summary for people. Throws UserError when `summary` does not have that form.
std::string timeline_summary_text(const Json& summary);

}  // namespace mlbench::report
