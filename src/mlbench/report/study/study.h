#pragma once

// How a task scales: runs of one task, over worker counts and repeats, as figures. Pure functions; charts, tables and
// the page draw what stands here.
//
// Runs that differ in no fixed key (comparison.h) make a *study*. In it, runs that make speed-ups with each other are a
// *line*; its *points* are the worker counts, each with its repeats. A line's baseline is its smallest worker count.
// Lines stand side by side: no figure is a ratio between two of them.
//
// What is compared is the time to the goal on the train clock, median of the repeats, where any run of the study
// reached it (a point of which a repeat missed the goal has no time: times of the lucky runs alone would be biased);
// else the train clock per 1,000 samples of all workers. Parts of that time are of the same steps: a run that went on
// past its goal is counted up to it. Shares are ratios of a run, all of it.
//
//   speed-up          time of the baseline / time
//   compute-only      the same of the time in init, fwd_pass, comp_loss, backprop and opt_step on rank 0
//   communication     agg / train clock (and agg / the compute time), of the whole run, medians
//   wait, transfer    parts of it on rank 0, over the train clock, medians (record/exchange.h)
//   hidden            what of both ran while rank 0 computed its gradient, in the same way
//   cost              time x workers x price of a worker per hour, on the clock that is billed; without a goal, per
//                     million samples
//   price index       (cost / cost of the baseline) / speed-up, both on that clock

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/record/spool.h"
#include "mlbench/report/study/measured_run.h"

namespace mlbench::report {

struct StudyPoint {
  int64_t workers = 0;
  std::vector<size_t> runs;  // repeats, as indices into the runs given
  // The repeat of the median time, where one has none of the median train clock: its parts, losses and evaluations are
  // drawn.
  size_t shown = 0;
  int64_t reached = 0;                             // repeats that reached the goal
  std::optional<double> seconds, least_s, most_s;  // median and range over the repeats
  std::optional<double> compute_s;                 // median
  std::optional<double> samples_per_s;             // median
  std::optional<double> speed_up, efficiency, compute_speed_up;
  std::optional<double> communication_share, communication_per_compute;
  std::optional<double> wait_share, transfer_share;
  bool exchange_exact = false;  // else the shares are at least and at most so much
  std::optional<double> hidden_share;
  // Of the repeat shown, in the unit of `seconds`; none where it missed the goal of the study. Wait and transfer are
  // parts of `agg` where nothing is hidden; exposed is one always.
  std::array<std::optional<double>, record::kStepKinds> kinds_s;
  std::optional<double> wait_s, transfer_s, exposed_s, hidden_s;
  bool hides() const { return hidden_s.value_or(0) > 0; }
  std::optional<double> billed_s;  // as `seconds`, on the clock that is billed
  std::optional<double> cost, price_increase, price_index;
  std::optional<double> alpha;  // of rules whose rate is alpha / sqrt(t)
};

struct StudyLine {
  std::string name;                 // what tells it from the others: "gloo", "mpi, 2 threads"
  std::vector<StudyPoint> points;   // by worker count
  std::string baseline;             // names of the baseline's runs
  std::string no_baseline;          // why there is none; "" when there is one
  std::vector<std::string> labels;  // of all its runs: open, synthetic, oversubscribed, ...
};

// What a machine is paid for: the wall clock from the launch on (to a goal: until the evaluation that met it ended), or
// the train clock alone.
enum class BilledClock { kWall, kTrain };
std::string_view name_of(BilledClock clock);

struct Study {
  std::string task, title;  // "fashion-mnist"; "fashion-mnist, goal Prec@1 >= 91.5 on test data"
  bool to_goal = false;     // what `seconds` are
  std::string metric, split;
  std::optional<double> target, target_loss;
  bool higher_is_better = true;
  BilledClock billed = BilledClock::kWall;
  std::vector<StudyLine> lines;
  std::vector<std::string> lines_differ_in;  // names of keys
  std::vector<std::string> notes;            // what a reader must know: missed goals, labels, baselines
};

struct StudyOptions {
  double worker_per_hour = 0;
  BilledClock billed = BilledClock::kWall;
  // The keys in which the lines of a study may differ (keys_of_lines()); runs that differ in others are other studies.
  // Empty: all.
  std::vector<std::string> lines = {};
};

// Runs that have not ended well, measured nothing or shared their host are left out, each with a note.
std::vector<Study> make_studies(const std::vector<MeasuredRun>& runs, const StudyOptions& options,
                                std::vector<std::string>& notes);

// The figures of a study, for the terminal and for --json.
std::string study_table(const Study& study, const std::string& currency);
Json to_json(const Study& study, const std::vector<MeasuredRun>& runs);

}  // namespace mlbench::report
