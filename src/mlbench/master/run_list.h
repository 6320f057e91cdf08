#pragma once

// The list of all runs: what the index keeps of each, filters, order, and repeats as one row.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/store/run_index.h"

namespace mlbench::master {

// The row of the index for a run with this summary (RunSummary in api/openapi.json), without its stamp. `words` are
// what a search looks through beside the name (home/summary.h).
store::IndexedRun indexed_run(const Json& summary, const std::string& words);

// The names by which a list can be filtered: state, task, workers, executor, label, tag.
const std::vector<std::string>& list_filters();
// The names of figures by which a list can be ordered: members of the summary, and goal_MEMBER for those of its goal.
const std::vector<std::string>& list_orders();
// The rows of those that a page offers as columns (Figures in api/openapi.json), in the order of the columns.
Json list_figures();

struct ListQuery {
  std::vector<std::pair<std::string, std::string>> filters = {};  // of list_filters(), each with the value to have
  std::string search = {};                                        // parts, all of which its name or words have to hold
  std::string sort = "id";                                        // of list_orders()
  bool descending = true;
  bool together = false;            // repeats are one row, which fits where one of them does
  int64_t limit = 100, offset = 0;  // in rows
};

// The list as JSON (RunPage in api/openapi.json). Runs without a value come last in either direction, and the newest
// come first among equals. Numbers within texts count as numbers.
// `others` are runs beside those of the index, the newest first.
std::string list_of_runs(const store::RunIndex& index, const ListQuery& query,
                         const std::vector<store::IndexedRun>& others = {});

}  // namespace mlbench::master
