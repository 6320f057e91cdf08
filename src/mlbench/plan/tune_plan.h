#pragma once

// What `mlbench tune` tries: points of a grid, or points drawn from a space, each as options of `run`. Nothing is
// started here.

#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/spec/run_options.h"
#include "mlbench/spec/task.h"

namespace mlbench::plan {

// One setting that is tuned, from text such as
//   optimizer.lr=0.1,0.2,0.5      these values
//   optimizer.lr=0.001..1000      from 0.001 to 1000: of a grid every power of ten times 0.001
//   optimizer.lr=0.001..1000/4    of a grid 4 values, each larger by the same factor
struct TuneAxis {
  std::string key;
  std::vector<std::string> values;  // of a list; empty for a range
  double least = 0, most = 0;       // of a range; 0 < least < most
  int64_t count = 0;                // values of the range in a grid; 0: powers of ten
};
// Throws UserError for any other text, which is quoted with an example.
TuneAxis parse_axis(const std::string& text);

struct TuneOptions {
  spec::RunOptions run;        // what all trials have in common; its name is the tuning's
  std::vector<TuneAxis> grid;  // all combinations are tried; of these two, one is empty
  std::vector<TuneAxis> space;
  int64_t trials = 5;   // points of each study that are drawn from the space; with neither grid nor space: 1
  int64_t studies = 1;  // how often all is done, with other points and seeds
  double holdout = 0;  // share of the training set that trials are evaluated on; 0: they are evaluated as the task says
};

struct TunePoint {
  int64_t study = 0;  // from 0
  int64_t trial = 0;  // from 0, in the order in which trials are made
  std::vector<spec::Override> settings;
};

// All points of all studies, in the order in which they are tried: the same for the same options and seed.
// Points of a space are those of Halton's sequence (one prime per axis), shifted for each seed and study; ranges are
// drawn by their logarithm. Throws UserError for more than 10,000 points, and for more than 8 axes of a space.
std::vector<TunePoint> tune_points(const TuneOptions& options);

// Options of one run of a point. `repeat` from 0: each repeat and each study has a seed of its own.
spec::RunOptions trial_options(const TuneOptions& options, const TunePoint& point, int64_t repeat, int64_t repeats);

}  // namespace mlbench::plan
