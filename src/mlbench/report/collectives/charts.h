#pragma once

// Benchmarks of collectives as charts, like figures 2 and 3 of MLBench's manual: the time of an operation over its
// size, both axes logarithmic, a line per back end, number of ranks and type; and the bus bandwidth over the size.
//
// Operations, reductions and devices have charts of their own. Where results are of several back ends and several
// numbers of ranks, there is a chart for each number of ranks with the back ends as lines, and one for each back end
// with the numbers of ranks as lines.

#include <string>
#include <vector>

#include "mlbench/report/collectives/result.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/page.h"

namespace mlbench::report {

// Of each row the form that the interface has without a copy, where it was measured; the median of the iterations, of
// archives their mean; of a size that was measured several times, the median of these. Rows of no bytes are left out.
std::vector<Chart> collectives_charts(const std::vector<CollectivesResult>& results);

// Their part of the page.
PageStudy collectives_study(std::vector<Chart> charts);

}  // namespace mlbench::report
