#pragma once

// Writes report.html: one file with everything in it (uPlot, script, style, figures), for a browser without a network.
//
// Names of runs, tasks, metrics and prices are not trusted. They stand in one JSON block, in which '<', '>' and '&' are
// escaped, and the script shows them as text only. The page's content security policy allows no other script.

#include <string>
#include <vector>

#include "mlbench/report/draw/charts.h"
#include "mlbench/report/study/price.h"

namespace mlbench::report {

struct PageStudy {
  Json figures;  // to_json(Study)
  std::vector<Chart> charts;
};

struct Page {
  std::string made;  // "made by mlbench 0.1.0 on 2026-11-21 17:00:00 UTC"
  std::vector<PageStudy> studies;
  std::vector<std::string> notes;
  PriceTable prices;
  std::string worker;  // the `items` of price_of_worker()
  bool preemptible = false;
  std::string price_note;
};

std::string report_page(const Page& page);

}  // namespace mlbench::report
