#pragma once

// Who takes which samples of which step: closed formulas, no state.
//
// One permutation of the training set per epoch from (seed, epoch), the same on every rank. Global step s of an epoch
// takes positions [s*b*k, min((s+1)*b*k, N)); that range is cut into k parts as even as possible (earlier ranks take
// the larger ones), one per rank. Steps per epoch = ceil(N / (b*k)), equal on all ranks.

#include <cstdint>
#include <vector>

namespace mlbench::data {

struct Shard {
  int64_t workers = 1, rank = 0, batch_size = 1;  // per worker
};

// UserError unless all are positive and rank is in [0, workers).
int64_t steps_per_epoch(int64_t samples, const Shard& shard);

// Positions (into the epoch's permutation) of this rank's part of step `step` (within the epoch), and the number of
// samples of the global batch. Closed form, so that a run can begin at any step.
struct StepSlice {
  int64_t first = 0;
  int64_t count = 0;
  int64_t global_count = 0;
};
StepSlice slice_of(int64_t samples, const Shard& shard, int64_t step_in_epoch);

// The epoch's order of the training samples; the same on every rank.
std::vector<int64_t> epoch_permutation(int64_t samples, uint64_t seed, int64_t epoch);

}  // namespace mlbench::data
