#pragma once

// Puts repeated runs side by side for `mlbench compare` and says whether their differences are real. A difference is
// real when the interval of the ratio (statistics.h) leaves out 1, which needs two repeats of each run. The intervals
// of one run's ratios are so wide that in 95 % of such rows all true ratios lie in them. comparison.h says which runs
// have a ratio. Repeats are paired by their seeds where both runs have the same ones.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

struct RepeatedRun {
  std::string name;
  std::vector<record::Record> records;  // of the repeats, at least one
};

// Splits each run where its records differ in a key, since such records are no repeats of each other, and says so in
// `notes`. The first part keeps the run's name, the others have that of their first record.
std::vector<RepeatedRun> split_where_different(const std::vector<RepeatedRun>& runs, std::vector<std::string>& notes);

struct Sample {
  std::vector<double> values;        // of the repeats that have a value
  std::optional<double> mean;        // geometric, since ratios compare geometric means, unless it `is_arithmetic`
  std::optional<Interval> interval;  // 95 % interval of the mean
  bool is_arithmetic = false;        // the values have a greatest one, at which the interval ends (bounded_mean)
};
Sample sample_of(std::vector<double> values);
// Values of a metric, which may have bounds (spec::bounds_of). Values of a program that knows other bounds have the
// geometric mean.
Sample sample_of_metric(std::vector<double> values, std::string_view metric);
// The mean with its interval, "40.0 [39.1, 41.2]"; "-" without a mean.
std::string with_interval(const Sample& sample, const Form& form);
Json to_json(const Sample& sample);

// Times to the goal and rates of repeats, and what they are together.
struct MeasuredRepeat {
  std::optional<double> time_to_goal_s, samples_per_s;
};
struct RepeatSamples {
  size_t runs = 0, reached = 0;
  Sample time_to_goal_s;  // empty unless every repeat reached the goal
  Sample samples_per_s;
};
// Both samples are empty where other runs shared the host.
RepeatSamples samples_of(const std::vector<MeasuredRepeat>& repeats, bool shared_host);

struct RepeatedFigures {
  std::string name;
  std::vector<std::string> repeats;  // names of the repeats
  std::vector<uint64_t> seeds;       // of the repeats; empty where one is not known, or where two are equal
  int64_t workers = 0;
  size_t runs = 0, reached = 0;
  bool shared_host = false;  // true: there are no times, rates or ratios
  Sample time_to_goal_s;     // empty unless every repeat reached the goal
  Sample samples_per_s, communication_per_compute;
  Sample value_after;     // values at Significance::after_s; empty unless every repeat has one
  size_t ended = 0;       // repeats that had ended before that moment, which count with their last value
  size_t not_finite = 0;  // repeats whose value at that moment was NaN or infinite, which counts as none
  std::vector<std::string> labels;
  // Comparison with the first run; a ratio above 1 means more time, more throughput, a higher value.
  std::vector<std::string> differs_in;  // names of keys
  std::string no_ratio;                 // why there is none; "" where nothing forbids one
  bool paired = false;                  // the ratios are of repeats with the same seed (paired_ratio_of)
  std::optional<RatioEstimate> time_ratio, rate_ratio, value_ratio;
};

struct Significance {
  std::vector<RepeatedFigures> runs;
  std::string metric, split;      // of value_after: those of the first run; "" where it has none
  std::optional<double> after_s;  // the moment asked for, or the latest at which every run has a value
  std::vector<std::string> notes;
};

struct SignificanceOptions {
  std::optional<double> after_s = {};  // the moment of value_after; empty: the latest at which every run has a value
  std::vector<std::string> vary = {};  // keys that may differ together
};

// Compares runs with the first of them. Precondition: there is at least one run. Repeats that differ in a key become
// runs of their own.
Significance significance_of(const std::vector<RepeatedRun>& runs, const SignificanceOptions& options);

// "0.50 [0.49, 0.51]"; "-" without an estimate.
std::string ratio_words(const std::optional<RatioEstimate>& estimate);
// Words for an estimate whose differs() is false: no difference was shown, and how large one would have shown.
std::string no_difference_words(const RatioEstimate& estimate);

std::string significance_text(const Significance& significance, const TableStyle& style = {});
Json to_json(const Significance& significance);
// What the tables of significance_text() say of each run, an object by the keys of to_json(). A ratio has its verdict
// beside it.
Json words_json(const Significance& significance);

}  // namespace mlbench::report
