#pragma once

// The table of runs of `mlbench status`. Runs that repeat each other stand as one row.

#include <string>
#include <vector>

#include "mlbench/report/draw/table.h"
#include "mlbench/report/study/significance.h"

namespace mlbench::report {

// A row for each run. Repeats have one together: how many are in which state, and geometric means of those that
// finished with their 95 % intervals. Repeats that differ in a key (study/comparison.h) have rows of their own.
std::string status_table(const std::vector<RepeatedRun>& runs, const TableStyle& style = {});

}  // namespace mlbench::report
