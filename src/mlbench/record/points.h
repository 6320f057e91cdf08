#pragma once

// What a rank recorded as series of points, which charts, the master's store and exports show. A metric that was not
// finite is a point with the value NaN.
//   steps          (train, loss), the mean over the samples; ("", lr), samples_per_s; per step step_s, bytes, KIND_s
//   epochs         (train, METRIC) over all ranks, and ("", gradient_norm)
//   evaluations    on test data: (test, METRIC) over all ranks
//   loss scale     ("", loss_scale) over all ranks, where it changed
//   usage          ("", cpu_cores), ("", memory_bytes) and, of ranks on other hosts, ("", network_in_bytes_per_s) and
//                  ("", network_out_bytes_per_s) of each rank, and the same of the supervisor's host with host_ before
//                  the name, over all ranks; in all runs; the steps are seconds of the run's wall clock; exports leave
//                  these out
//   custom runs    the values by the names that the script gave (legacy_names.h), and ("", epoch)

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/series_key.h"
#include "mlbench/record/spool.h"
#include "mlbench/record/tracker_lines.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::record {

struct Point {
  int64_t time_us = 0;  // Unix epoch
  int64_t step = 0;
  double value = 0;
};

using Points = std::map<SeriesKey, std::vector<Point>>;

void add_points(Points& points, const StepRecord& record, const SpoolHeader& header);
void add_points(Points& points, const Json& event, const SpoolHeader& header);
void add_points(Points& points, const TrackerLine& line, int64_t rank);
void add_points(Points& points, const UsageLine& line);

// All that a rank of this run recorded, each series in the order of recording, whatever wall clocks said. Of steps that
// were repeated after a resume, the later ones count. `segments` is how many there may be.
Points read_points(const std::filesystem::path& run_dir, int64_t segments, int64_t rank);

}  // namespace mlbench::record
