#pragma once

// What the command line prints about runs, as text.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

// All runs of a home, one line each.
std::string status_table(const std::vector<record::Record>& records);

// Runs of one command: results, then scaling against the smallest worker count where there is more than one count.
std::string results_table(const std::vector<record::Record>& records);

// One run in full: what it is, how it stands, clocks, where the time goes, evaluations, failure.
std::string run_details(const record::Record& record);

// Of a run with --profile or --explain: the operations of a step, their time beside that of their kernels alone; "" of
// another run.
std::string operations_table(const record::Record& record);

// Why a run failed: culprit, message, exit codes, last log lines; "" when it did not.
std::string failure_text(const record::Record& record);

}  // namespace mlbench::report
