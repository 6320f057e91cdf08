#pragma once

// How one operation is timed. Before each iteration the ranks meet in a barrier, so that none waits within its time for
// one that is still busy with the last; what is left of that is how differently the barrier lets them go. An iteration
// is the operation, repeated `aggregated` times between two looks at the clock of the rank.

#include <cstdint>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/collectives/control.h"
#include "mlbench/collectives/exercise.h"
#include "mlbench/record/collectives.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

struct Repetition {
  int64_t iterations = 20, warm_up = 5, aggregated = 1;
  bool blocking = false;  // a barrier behind each operation, within its time
  // Of warm-up (at most a quarter) and iterations by the clock of rank 0, which decides for all before each iteration;
  // 0: none. `least` iterations are made in any case.
  Nanoseconds cap{0};
  int64_t least = 5;
  int64_t check_every = 0;  // iterations whose results are verified; their data is prepared anew; 0: none
};

struct Measured {
  std::vector<double> times_us;  // of this rank, per operation; as many on all ranks
  bool capped = false;
  int64_t wrong = 0;  // of this rank, in the iterations that were verified
};

// Collective. `seed` is the same on all ranks and counts up with every preparation.
Measured measure(Exercise& exercise, const Repetition& repetition, const Workplace& workplace, Control& control,
                 const Clock& clock, uint64_t& seed);

// The number of wrong elements of this rank after so many operations, each on new data.
int64_t count_wrong(Exercise& exercise, int64_t operations, const Workplace& workplace, uint64_t& seed);

// The time of each iteration out of those of all ranks ([rank][iteration]).
std::vector<double> times_of_iterations(const std::vector<std::vector<double>>& of_ranks, spec::RankAverage average);

// To 9 significant digits, as which a figure of a long list takes at most 14 characters of JSON: the list is within a
// line of the spool, which readers take up to a size (base/input.h).
double shortened(double figure);

}  // namespace mlbench::collectives
