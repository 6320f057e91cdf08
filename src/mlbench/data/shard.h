#pragma once

// Which rank takes which samples in which step: closed formulas without state.
//
// Each epoch has one permutation of the training set from (seed, epoch), the same on every rank. With global batches of
// G samples, global step s of an epoch takes positions [s*G, min((s+1)*G, N)). This range is cut into k parts, as even
// as possible (earlier ranks take the larger ones), one per rank. There are ceil(N / G) steps per epoch, the same
// number on all ranks.

#include <cstdint>
#include <vector>

namespace mlbench::data {

struct Shard {
  int64_t workers = 1, rank = 0, batch_size = 1;  // batch_size is per worker
  int64_t fixed_global_batch = 0;                 // of all workers; 0: batch_size * workers

  int64_t global_batch() const { return fixed_global_batch > 0 ? fixed_global_batch : batch_size * workers; }
};

// Throws UserError unless all numbers are positive and the rank is in [0, workers).
int64_t steps_per_epoch(int64_t samples, const Shard& shard);

// This rank's part of step `step_in_epoch`, as positions in the epoch's permutation, and the number of samples in the
// global batch. The formula is closed, so that a run can begin at any step.
struct StepSlice {
  int64_t first = 0;
  int64_t count = 0;
  int64_t global_count = 0;
};
StepSlice slice_of(int64_t samples, const Shard& shard, int64_t step_in_epoch);

// The order of the training samples in an epoch; the same on every rank.
std::vector<int64_t> epoch_permutation(int64_t samples, uint64_t seed, int64_t epoch);

}  // namespace mlbench::data
