#pragma once

// What the command line prints about runs, as text.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

// The results of the runs of one command; with several worker counts, also how they scale against the smallest.
std::string results_table(const std::vector<record::Record>& records, const TableStyle& style = {});

// All about one run: what it is, its state, its clocks, where the time goes, its evaluations, why it failed.
std::string run_details(const record::Record& record, const TableStyle& style = {});

// The operations of a step of a run with --profile or --explain; with --profile also their times beside those of the
// same kernels alone. "" for another run.
std::string operations_table(const record::Record& record);

// Why a run failed: the rank that caused it, message, exit codes, last log lines. "" when the run did not fail.
std::string failure_text(const record::Record& record);

}  // namespace mlbench::report
