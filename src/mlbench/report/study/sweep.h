#pragma once

// The scaling exercise (docs/scaling-exercise.md): which setting of one node is fastest, how it scales over nodes,
// where time is lost, and what accuracy is left. These are pure functions of records; `mlbench sweep` makes the runs.
//
//   throughput   samples per second of all workers, median of the repeats
//   speed-up     throughput / throughput of the fewest nodes with the same learning rates; efficiency is the speed-up
//                over the ratio of worker counts. Only points that make a speed-up (comparison.h) have one. Where one
//                of the two is oversubscribed and the other is not, the figure exists but is marked `crowded`
//   time parts   where a worker's time for one sample goes (lost_efficiency.h)

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/study/lost_efficiency.h"

namespace mlbench::report {

struct SweepSetting {
  int64_t procs_per_node = 1;
  int64_t intra_op = 1;  // threads of each process that share one operation
  int64_t inter_op = 1;  // threads of each process's pool for operations that run beside each other
  bool operator==(const SweepSetting&) const = default;
};
// "p2t1i1", as a part of runs' names.
std::string short_name(const SweepSetting& setting);
// Each combination of these values once; the values of `inter_op` change fastest.
std::vector<SweepSetting> settings_of(const std::vector<int64_t>& procs_per_node, const std::vector<int64_t>& intra_op,
                                      const std::vector<int64_t>& inter_op);

struct SweepRequest {
  SweepSetting setting = {};
  int64_t nodes = 1;
  bool lr_scaling = true;  // the learning rate grows with the number of workers, as the task says
  int64_t workers() const { return nodes * setting.procs_per_node; }
};

struct SweepAnswer {
  SweepRequest request = {};
  std::vector<record::Record> records = {};  // of the repeats that were made
  std::string refused = {};                  // why others could not be made; "" where none was refused
  std::string timeline = {};                 // what the summary of the timeline says; "" without a timeline
};

// What a worker needs for one sample: workers / throughput in all. Empty for a record without clocks, steps or
// throughput.
std::optional<WorkerTime> time_per_sample(const record::Record& record);

// How the runs of a point ended, of a sweep or of another study.
struct PointState {
  std::string state;  // finished, failed, stopped, not run
  std::string why;    // why the point is not finished; "" where it is
};
// `refused` says why a run could not be made; "" where none was refused.
PointState state_of(const std::vector<record::Record>& records, const std::string& refused);

struct Bottleneck {
  std::optional<TimePart> part;  // empty: at most 5 % of the efficiency is lost
  double share = 0;              // of the lost efficiency; without a baseline, of the whole time
  std::string text;              // for people
};
// The largest part of a point's time; and the largest loss of a point against its baseline.
Bottleneck bottleneck_of(const WorkerTime& here);
Bottleneck bottleneck_of(const WorkerTime& baseline, const WorkerTime& here);

struct SweepPoint {
  SweepRequest request = {};
  std::vector<std::string> runs = {};  // names
  std::string state = {}, why = {};    // PointState
  std::optional<double> samples_per_s = {}, least = {}, most = {};
  std::optional<double> speed_up = {}, efficiency = {};
  std::string no_efficiency = {};       // why there is no efficiency; "" where there is one
  bool crowded = false;                 // either this point or its baseline is oversubscribed
  std::optional<WorkerTime> time = {};  // for one sample, of the repeat with the median throughput
  std::optional<Bottleneck> bottleneck = {};
  std::optional<double> accuracy = {},
                        best_accuracy = {};  // of the last evaluation, of the best one; medians of the repeats
  std::vector<std::string> labels = {};      // of all runs; also where their hosts were fewer than the nodes
  std::string timeline = {};
  bool finished() const { return state == "finished"; }
};

struct Sweep {
  std::string task, metric, split;   // as the records have them; "" without records
  std::vector<SweepPoint> settings;  // on one node
  std::optional<size_t> best;        // index of the best of `settings`
  std::vector<SweepPoint> nodes;     // over nodes, in the order given
  std::vector<std::string> notes;
};

// The index of the finished point with the highest throughput; of equal ones, the first. A point with a repeat that
// failed is not finished.
std::optional<size_t> best_of(const std::vector<SweepPoint>& settings);
// Analyses the runs of one node by setting, and those over nodes.
Sweep analyse_sweep(const std::vector<SweepAnswer>& settings, const std::vector<SweepAnswer>& nodes);

// What the exercise computes by hand: how many steps cover the epochs.
struct SweepSteps {
  int64_t nodes = 1, workers = 1, global_batch = 0;
  double lr = 0;  // after the warm-up
  int64_t steps_per_epoch = 0, steps = 0;
};

// ---- for people and programs (sweep_text.cpp) ----------------------------------------------------------------------

std::vector<Section> sections_of(const Sweep& sweep);
Section section_of(const std::vector<SweepSteps>& steps);
// The best setting, what the timelines say, efficiency and bottleneck at the most nodes, the best accuracy there, and
// notes: a line each.
std::vector<std::string> findings_of(const Sweep& sweep);
// Comma-separated values with a row for each point; the last columns are the shares of the time parts.
std::string csv_of(const Sweep& sweep);
Json to_json(const Sweep& sweep);
Json to_json(const std::vector<SweepSteps>& steps);
// The charts of a sweep; a chart without a point is left out.
std::vector<Chart> charts_of(const Sweep& sweep);

}  // namespace mlbench::report
