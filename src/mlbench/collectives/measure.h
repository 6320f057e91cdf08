#pragma once

// How one operation is timed. Before each iteration the ranks meet in a barrier, so that none waits within its time for
// a rank that is still busy with the last iteration; what remains is how differently the barrier lets them go. An
// iteration is the operation, repeated `aggregated` times between two readings of the rank's clock.

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
  bool blocking = false;  // a barrier after each operation, within its time
  // The most time of warm-up (at most a quarter of it) and iterations, by the clock of rank 0, which decides for all
  // ranks before each iteration; 0: no limit. At least `least` iterations are made.
  Nanoseconds cap{0};
  int64_t least = 5;
  int64_t check_every = 0;  // after so many iterations, results are verified and data is prepared anew; 0: never
};

struct Measured {
  std::vector<double> times_us;  // of this rank, per operation; the same number on all ranks
  bool capped = false;
  int64_t wrong = 0;  // of this rank, in the iterations that were verified
};

// Collective. `seed` must be the same on all ranks; every preparation increments it.
Measured measure(Exercise& exercise, const Repetition& repetition, const Workplace& workplace, Control& control,
                 const Clock& clock, uint64_t& seed);

// The number of wrong elements of this rank after so many operations, each on new data.
int64_t count_wrong(Exercise& exercise, int64_t operations, const Workplace& workplace, uint64_t& seed);

// The time of each iteration, computed from the times of all ranks ([rank][iteration]).
std::vector<double> times_of_iterations(const std::vector<std::vector<double>>& of_ranks, spec::RankAverage average);

// Rounds to 9 significant digits, so that a figure of a long list takes at most 14 characters of JSON. The list then
// fits into a line of the spool, whose size readers limit (base/input.h).
double shortened(double figure);

}  // namespace mlbench::collectives
