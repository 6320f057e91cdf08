#pragma once

// Draws benchmarks of collectives as charts, like figures 2 and 3 of MLBench's manual: an operation's time and its bus
// bandwidth over the size. Both axes are logarithmic, and each back end, number of ranks and type is a line.
//
// Each operation, reduction and device has charts of its own. Where results have several back ends and several numbers
// of ranks, there is a chart for each number of ranks with the back ends as lines, and one for each back end with the
// numbers of ranks as lines.

#include <string>
#include <vector>

#include "mlbench/report/collectives/result.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/page.h"

namespace mlbench::report {

// The charts of `results`. A row counts with the form that the interface has without a copy, where that was measured,
// and with the median of its iterations (the mean for MLBench's archives). A size that was measured several times
// counts with the median of these. Rows of 0 bytes are left out.
std::vector<Chart> collectives_charts(const std::vector<CollectivesResult>& results);

// The part of the page (draw/page.h) that shows these charts.
PageStudy collectives_study(std::vector<Chart> charts);

}  // namespace mlbench::report
