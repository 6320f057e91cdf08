#pragma once

// The scaling exercise (docs/scaling-exercise.md): which setting of one node is fastest, how it scales over nodes, what
// the time is lost to, what accuracy is left. Pure functions of records; `mlbench sweep` makes the runs.
//
//   throughput   samples per second of all workers, median of the repeats
//   speed-up     throughput / that of the fewest nodes with the same learning rates; efficiency is that over the ratio
//                of worker counts. Between points that make a speed-up (comparison.h); where one is oversubscribed and
//                the other is not, there is a figure all the same, marked `crowded`
//   time parts   where a worker's time for one sample goes, on rank 0, of the repeat with the median throughput; their
//                sum is workers / throughput, so what they grow by is what scaling loses

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::report {

struct SweepSetting {
  int64_t procs_per_node = 1;
  int64_t intra_op = 1;  // threads of each process that share one operation
  int64_t inter_op = 1;  // threads of its pool for operations beside each other
  bool operator==(const SweepSetting&) const = default;
};
// "p2t1i1", for names of runs.
std::string short_name(const SweepSetting& setting);
// Each combination once, the last one changing fastest.
std::vector<SweepSetting> settings_of(const std::vector<int64_t>& procs_per_node, const std::vector<int64_t>& intra_op,
                                      const std::vector<int64_t>& inter_op);

struct SweepRequest {
  SweepSetting setting = {};
  int64_t nodes = 1;
  bool lr_scaling = true;  // the learning rate grows with the workers, as the task says
  int64_t workers() const { return nodes * setting.procs_per_node; }
};

struct SweepAnswer {
  SweepRequest request = {};
  std::vector<record::Record> records = {};  // of its repeats, as far as they were made
  std::string refused = {};                  // why some could not be made
  std::string timeline = {};                 // what the summary of its timeline says; "" without one
};

enum class TimePart : uint8_t { kCompute, kWaiting, kCommunication, kInput, kOther };
inline constexpr size_t kTimeParts = 5;
std::string_view name_of(TimePart part);  // "compute", "waiting", ...

// Seconds of one worker per sample.
using TimeParts = std::array<double, kTimeParts>;
double total_of(const TimeParts& parts);
// Empty for a record without clocks, steps or throughput. Waiting for the slowest rank is apart from communication
// where the record tells (report/study/study.h) and nothing is hidden; else it is within it.
std::optional<TimeParts> time_parts(const record::Record& record);

struct Bottleneck {
  std::optional<TimePart> part;  // none: nothing to speak of is lost
  double share = 0;              // of what is lost; without a baseline of the whole time
  std::string text;              // for people
};
Bottleneck bottleneck_of(const TimeParts& here);                             // of a point alone
Bottleneck bottleneck_of(const TimeParts& baseline, const TimeParts& here);  // of what it loses against another

struct SweepPoint {
  SweepRequest request = {};
  std::vector<std::string> runs = {};  // names
  std::string state = {};              // finished, failed, stopped, not run
  std::string why = {};                // it is not finished
  std::optional<double> samples_per_s = {}, least = {}, most = {};
  std::optional<double> speed_up = {}, efficiency = {};
  std::string no_efficiency = {};  // why there is none
  bool crowded = false;
  std::optional<TimeParts> parts = {};
  std::optional<Bottleneck> bottleneck = {};
  std::optional<double> accuracy = {},
                        best_accuracy = {};  // of the last evaluation, of the best; median of the repeats
  std::vector<std::string> labels = {};      // of all its runs, and on how few hosts they stood
  std::string timeline = {};
  bool finished() const { return state == "finished"; }
};

struct Sweep {
  std::string task, metric, split;   // as the records have them; "" before any
  std::vector<SweepPoint> settings;  // on one node
  std::optional<size_t> best;        // of them
  std::vector<SweepPoint> nodes;     // in the order given
  std::vector<std::string> notes;
};

// The finished point of most throughput; of equal ones the first. A setting of which a repeat failed is none.
std::optional<size_t> best_of(const std::vector<SweepPoint>& settings);
Sweep analyse_sweep(const std::vector<SweepAnswer>& settings, const std::vector<SweepAnswer>& nodes);

// What the exercise computes by hand: the steps that cover the epochs.
struct SweepSteps {
  int64_t nodes = 1, workers = 1, global_batch = 0;
  double lr = 0;  // after the warm-up
  int64_t steps_per_epoch = 0, steps = 0;
};

// ---- for people and programs (sweep_text.cpp) ----------------------------------------------------------------------

struct SweepTable {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};
std::vector<SweepTable> tables_of(const Sweep& sweep);
SweepTable table_of(const std::vector<SweepSteps>& steps);
std::string text_of(const std::vector<SweepTable>& tables);
std::string markdown_of(const std::vector<SweepTable>& tables);
// "best setting: 2 processes per node x 1 thread ...", what the bottleneck is, and notes; each a line.
std::vector<std::string> findings_of(const Sweep& sweep);
// All points, a row each; shares of the time parts behind.
std::string csv_of(const Sweep& sweep);
Json to_json(const Sweep& sweep);
Json to_json(const std::vector<SweepSteps>& steps);
// Those that have a point.
std::vector<Chart> charts_of(const Sweep& sweep);

}  // namespace mlbench::report
