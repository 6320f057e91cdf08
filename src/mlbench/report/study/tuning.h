#pragma once

// The answer of `mlbench tune`: which point reaches the target soonest.
//
// A run's time to the target is its number of steps to the target times its median step time. Unlike the clock, this
// product does not depend on a few slow steps. A point's time is the median over its repeats; a repeat that missed the
// target makes the point miss it. The winner is the point of least time. A point ties with it where the interval of
// their ratio holds 1; of tied points the one that was tried first wins. One repeat has no interval, so nothing ties.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {

// A point that was tried: its settings, and the runs that there are of it.
struct TuneTrial {
  int64_t study = 0, trial = 0;  // from 0
  std::vector<spec::Override> settings;
  std::vector<record::Record> records;  // of its repeats, in their order
  std::string refused;                  // why there is no run; "" where there is one, or none yet
};

struct TuneRow {
  int64_t study = 1, trial = 1;  // from 1
  std::string settings;          // "optimizer.lr=0.1, optimizer.momentum=0.9"
  std::vector<std::string> runs;
  std::optional<double> steps, step_s, target_s;  // medians over repeats; empty where the target was missed
  std::optional<double> best;                     // the goal's metric at its best, of the repeat where it was best
  std::string remark;                             // "winner", "as good as the winner", "missed", "failed", ...
};

struct Tuning {
  std::string metric;  // of the goal
  std::optional<double> target;
  std::vector<TuneRow> rows;     // in the order in which points were tried
  std::optional<size_t> winner;  // index of `rows`; empty where no point reached the target
  int64_t repeats = 1;
};

Tuning analyse_tuning(const std::vector<TuneTrial>& trials);

std::string text_of(const Tuning& tuning);
Json to_json(const Tuning& tuning);
std::string csv_of(const Tuning& tuning);
// The time to the target over the values of the axis `key`, one point per trial; without a point where no value of the
// axis is a positive number.
Chart chart_of(const Tuning& tuning, const std::vector<TuneTrial>& trials, const std::string& key);
// The winner's settings as a file for --set @FILE, one KEY=VALUE per line, with how they were found.
// Precondition: there is a winner.
std::string winner_file(const Tuning& tuning, const std::vector<TuneTrial>& trials, const std::string& command);

}  // namespace mlbench::report
