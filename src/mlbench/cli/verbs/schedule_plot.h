#pragma once

#include <string>
#include <vector>

#include "mlbench/plan/curve.h"
#include "mlbench/report/draw/charts.h"

namespace mlbench::cli {

// A chart of learning rates over epochs, with a line for each curve.
report::Chart chart_of(const std::string& title, const std::vector<plan::Curve>& curves);

}  // namespace mlbench::cli
