#pragma once

// What the training script of a custom run recorded itself through the Tracker (python/README.md): JSON lines in
// RUN/metrics/rank-R.jsonl.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"

namespace mlbench::record {

struct TrackerLine {
  int64_t time_us = 0;  // Unix epoch
  int64_t step = 0, epoch = 0;
  std::optional<double> train_s;                       // the script's train clock so far
  std::optional<int64_t> samples;                      // of this rank so far
  std::vector<std::pair<std::string, double>> values;  // NaN for null
  std::map<std::string, std::string> text;             // "TaskResult"
  Json goal = nullptr;                                 // {"metric", "split", "target", "value"} of a reached goal
};

// Reads one line; empty for a text that is no record of this form within the limits (base/input.h). Values with names
// that no metric can have (250 bytes, no control characters) and texts of more than 64 KiB are left out.
std::optional<TrackerLine> parse_tracker_line(std::string_view text);

struct TrackerLines {
  std::vector<TrackerLine> lines;  // the complete ones, in the order of the file
  int64_t left_out = 0;            // complete lines that are no record of this form, or come after the first million
};
// Empty without a file. Throws UserError when the file is too large or no plain file.
TrackerLines read_tracker_lines(const std::filesystem::path& run_dir, int64_t rank);

// The parts of a run's record that rank 0's lines tell.
struct TrackerFigures {
  std::optional<Goal> goal;
  double train_s = 0;  // the train clock of the lines; where they have none, the sum of CumulativeTrainTimeEpoch
  NamedNumbers steps_s;
  std::vector<Evaluation> evaluations;  // values on test data over all ranks (legacy_names.h)
  std::vector<Epoch> epochs;            // an epoch ends where its times were recorded
  int64_t steps = 0;
  std::string result;
  int64_t left_out = 0;  // evaluations and epochs beyond 20,000 rows of each, or beyond 200,000 values
};
// `started_us` is when the run started. With a `declared` goal, recorded values are held against its target, and the
// goal has the best value; else the goal is the one that the script says it reached.
TrackerFigures tracker_figures(const std::vector<TrackerLine>& lines, int64_t started_us,
                               const std::optional<spec::GoalSpec>& declared = std::nullopt);

// The samples of a rank by its lines. As for the train clock, those that a restarted script took again count twice.
// Empty where no line tells.
std::optional<int64_t> tracker_samples(const std::vector<TrackerLine>& lines);

}  // namespace mlbench::record
