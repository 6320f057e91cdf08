#pragma once

// Charts as data, made from studies; gnuplot.h and page.h draw them.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/report/study/study.h"

namespace mlbench::report {

enum class ChartKind { kLines, kStackedBars };

struct ChartPoint {
  double x = 0;
  double y = 0;
  // Least and most over the repeats, drawn as a bar around the point; both or neither.
  std::optional<double> low = {}, high = {};
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;     // ascending x
  bool guide = false;                 // drawn dashed and without marks: linear speed-up, goal, target loss
  bool rings = false;                 // drawn as rings around points of other series, without a line
  std::optional<size_t> colour = {};  // a place in kStepWords (step_words.h); empty: the next of the palette
};

// Where `ticks` is not empty, x is an index into it (for instance worker counts, one step apart); else x is a number.
struct Chart {
  std::string id;  // "speedup": base name of its files; letters, digits, '_' and '-'
  std::string title, subtitle, x_label, y_label;
  std::vector<std::string> labels;  // what a reader must know of the runs, "oversubscribed"; below the subtitle
  ChartKind kind = ChartKind::kLines;
  std::vector<std::string> ticks;
  std::vector<ChartSeries> series;
  bool from_zero = true;  // the y axis begins at zero
  // Logarithmic axes: these do not begin at zero, and their values must be above 0.
  bool log_x = false, log_y = false;
};

struct ChartOptions {
  std::string currency = "$";
  std::string price_note;  // "n1-standard-4, 0.2092 $/h per worker"
};

// The charts of a study in the order of docs/reports.md; a chart without a point is left out.
std::vector<Chart> charts_of(const Study& study, const std::vector<MeasuredRun>& runs, const ChartOptions& options);

// Charts of several studies together: a line for each line of each study, named by what tells these apart. No figure
// compares one study with another. Empty for fewer than two studies.
std::vector<Chart> charts_of_all(const std::vector<Study>& studies, const std::vector<MeasuredRun>& runs,
                                 const ChartOptions& options);

// Whether any point of the series has least and most.
bool has_bars(const ChartSeries& series);

// A chart as comma-separated values: a column of x, and one per series; of a series with bars three, value, least and
// most. A "'" is put in front of cells that a spreadsheet would take for formulas.
std::string chart_csv(const Chart& chart);

}  // namespace mlbench::report
