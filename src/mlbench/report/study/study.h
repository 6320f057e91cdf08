#pragma once

// How a task scales: figures of the runs of one task over worker counts and repeats. These are pure functions; charts,
// tables and the page draw what they give.
//
// Runs that differ in no fixed key (comparison.h) make a *study*. In a study, runs that make speed-ups with each other
// are a *line*. Its *points* are the worker counts, each with its repeats. A line's baseline is its smallest worker
// count. Lines stand side by side: no figure is a ratio between two lines.
//
// Where any run of the study reached the goal, the times compared are times to the goal on the train clock. The time of
// a point is the geometric mean of its repeats. A point with a repeat that missed the goal has no time: the times of
// the lucky runs alone would be biased. Without such a run, they are the train clock per 1,000 samples of all workers.
// Parts of a time belong to the same steps: a run that went on past its goal is counted up to the goal. Shares are
// those of whole runs.
//
//   speed-up          time of the baseline / time, with its 95 % interval where both have two repeats
//   gain              time of the worker count before / time - 1, with its interval
//   knee              the largest worker count whose gain is at least 25 %, by the lower end of its interval
//   lost efficiency   1 - efficiency, split into its causes (lost_efficiency.h)
//   compute-only      the same for the time in init, fwd_pass, comp_loss, backprop and opt_step on rank 0
//   communication     agg / train clock (and agg / compute time) of the whole run, medians
//   wait, transfer    the parts of communication on rank 0, over the train clock, medians (record/exchange.h)
//   hidden            the part of both that ran while rank 0 computed its gradient, over the train clock, median
//   cost              time x workers x price of a worker per hour, on the clock that is billed; without a goal, per
//                     million samples
//   price index       (cost / cost of the baseline) / speed-up, both on the clock that is billed

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/record/spool.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/study/lost_efficiency.h"
#include "mlbench/report/study/measured_run.h"
#include "mlbench/report/study/price.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

struct StudyPoint {
  int64_t workers = 0;
  std::vector<size_t> runs;  // the repeats, as indices into the `runs` of make_studies()
  // The repeat whose parts, losses and evaluations are drawn: that with the median time or, where a repeat has no time,
  // that with the median train clock.
  size_t shown = 0;
  int64_t reached = 0;                             // repeats that reached the goal
  std::vector<double> repeats_s;                   // times of the repeats that have one
  std::optional<double> seconds, least_s, most_s;  // geometric mean and range over the repeats
  std::optional<double> compute_s;                 // geometric mean
  std::optional<double> samples_per_s;             // median
  std::optional<double> speed_up, efficiency, compute_speed_up;
  std::optional<Interval> speed_up_interval;  // over the ratio of worker counts it is that of the efficiency
  std::optional<RatioEstimate> gain;          // 1 + gain; empty for the baseline
  std::optional<LostEfficiency> lost;         // empty for the baseline
  std::optional<double> communication_share, communication_per_compute;
  std::optional<double> wait_share, transfer_share;
  bool exchange_exact = false;  // false: the true wait is at least and the true transfer at most so much
  std::optional<double> hidden_share;
  // Times of the repeat `shown`, in the unit of `seconds`; empty where it missed the goal of the study. Wait and
  // transfer are parts of `agg` where nothing is hidden; exposed time always is.
  std::array<std::optional<double>, record::kStepKinds> kinds_s;
  std::optional<double> wait_s, transfer_s, exposed_s, hidden_s;
  bool hides() const { return hidden_s.value_or(0) > 0; }
  std::optional<WorkerTime> time;  // where `seconds` went, over all repeats; work 0: not known
  std::optional<double> billed_s;  // as `seconds`, on the clock that is billed
  std::optional<double> cost, price_increase, price_index;
  std::optional<double> alpha;  // of tasks whose learning rate is alpha / sqrt(t)
};

struct StudyLine {
  std::string name;                 // what tells the line from others: "gloo", "mpi, 2 threads"
  std::vector<StudyPoint> points;   // by worker count
  std::string baseline;             // names of the runs with the smallest worker count
  std::string no_baseline;          // why there is no baseline; "" when there is one
  std::optional<int64_t> knee;      // empty: no worker count gains enough, or there is no second
  std::vector<std::string> answer;  // whether more workers are worth it, a sentence each (answer.h)
  std::vector<std::string> labels;  // of all runs: open, synthetic, oversubscribed, ...
};

// The time for which a machine is paid: the wall clock from the launch on (with a goal, until the end of the evaluation
// that met it) without the preparation of data, or only the train clock.
enum class BilledClock { kWall, kTrain };
std::string_view name_of(BilledClock clock);

struct Study {
  std::string task, title;  // "fashion-mnist"; "fashion-mnist, goal Prec@1 >= 91.5 on test data"
  bool to_goal = false;     // `seconds` are times to the goal; false: times per 1,000 samples
  std::string metric, split;
  std::optional<double> target, target_loss;
  bool higher_is_better = true;
  BilledClock billed = BilledClock::kWall;
  std::vector<StudyLine> lines;
  std::vector<std::string> lines_differ_in;  // names of the keys in which lines differ
  std::vector<std::string> notes;            // what a reader must know: missed goals, labels, baselines
};

struct StudyOptions {
  double worker_per_hour = 0;
  BilledClock billed = BilledClock::kWall;
  // Names from keys_of_lines() in which the lines of a study may differ; empty: in all. Runs that differ in other keys
  // become different studies.
  std::vector<std::string> lines = {};
};

// Makes the studies of `runs`. Runs that are not finished, measured nothing or shared their host are left out; each
// gets a note in `notes`.
std::vector<Study> make_studies(const std::vector<MeasuredRun>& runs, const StudyOptions& options,
                                std::vector<std::string>& notes);

// The lines of all studies as those of one, named by what tells them apart, for charts that show them together. Only
// figures that have no unit may be drawn of it. `runs` must be those of make_studies(). Precondition: there is a study.
Study side_by_side(const std::vector<Study>& studies, const std::vector<MeasuredRun>& runs);

// The studies of `runs` with the default prices of one machine per worker, on the wall clock.
struct PricedStudies {
  PriceTable prices;
  std::string worker;      // "n1-standard-4"
  double per_hour = 0;     // of one worker
  std::string price_note;  // "n1-standard-4: 0.2092 $/h per worker, wall clock"
  std::vector<Study> studies;
  std::vector<std::string> notes;
};
PricedStudies priced_studies(const std::vector<MeasuredRun>& runs);

// The sentences of all answers; with several lines of the study below the name of theirs.
std::vector<std::string> answer_lines(const Study& study);
// A row for each worker count, with the means of its repeats and their 95 % intervals.
Table repeats_table(const Study& study);

// The answer and the figures of a study, for people and for --json. `runs` must be those of make_studies().
Section section_of(const Study& study, const std::string& currency);
Json to_json(const Study& study, const std::vector<MeasuredRun>& runs);

}  // namespace mlbench::report
