#include "mlbench/data/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/spec/epoch.h"

namespace mlbench::data {

int64_t steps_per_epoch(int64_t samples, const Shard& shard) {
  if (samples <= 0 || shard.workers <= 0 || shard.batch_size <= 0 || shard.rank < 0 || shard.rank >= shard.workers) {
    throw UserError(
        fmt::format("{} samples in batches of {} on rank {} of {} workers: all must be positive, and the "
                    "rank below the number of workers",
                    samples, shard.batch_size, shard.rank, shard.workers));
  }
  return spec::steps_per_epoch(samples, shard.global_batch());
}

StepSlice slice_of(int64_t samples, const Shard& shard, int64_t step_in_epoch) {
  const int64_t steps = steps_per_epoch(samples, shard);
  MLBENCH_CHECK(step_in_epoch >= 0 && step_in_epoch < steps, fmt::format("step {} of {}", step_in_epoch, steps));
  const int64_t global_batch = shard.global_batch();
  const int64_t begin = step_in_epoch * global_batch;
  const int64_t global_count = std::min(global_batch, samples - begin);
  const int64_t even = global_count / shard.workers;
  const int64_t larger = global_count % shard.workers;  // so many ranks take one sample more
  return {begin + shard.rank * even + std::min(shard.rank, larger), even + (shard.rank < larger ? 1 : 0), global_count};
}

std::vector<int64_t> epoch_permutation(int64_t samples, uint64_t seed, int64_t epoch) {
  return permutation(samples, derive_key(seed, {kShuffleStream, static_cast<uint64_t>(epoch)}));
}

}  // namespace mlbench::data
