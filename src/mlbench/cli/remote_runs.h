#pragma once

// Runs of a master elsewhere, as verbs and reports read those of this home. What it answers is checked like a file.

#include <string>
#include <vector>

#include "mlbench/cli/remote.h"
#include "mlbench/report/measured_run.h"

namespace mlbench::cli {

// What lists show (RunSummary in api/openapi.json) of all runs with `search` in their name or notes, oldest first.
Json remote_summaries(const MasterClient& master, const std::string& search);

Json remote_record(const MasterClient& master, const std::string& name);
// The records of a run and, unless it names one of them, of its repeats, oldest first.
std::vector<Json> remote_repeats(const MasterClient& master, const std::string& name);
// With its loss over the train clock; `source` is the run's address.
report::MeasuredRun remote_run(const MasterClient& master, const std::string& name);

}  // namespace mlbench::cli
