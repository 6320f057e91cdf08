#pragma once

// How long training took, re-derived from step records.

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "mlbench/record/spool.h"
#include "mlbench/spec/fields.h"

namespace mlbench::record {

// When the first `step` steps were done in a segment; the end of the run where nothing is said.
struct Moment {
  int64_t segment = std::numeric_limits<int64_t>::max();  // from 1
  uint64_t step = std::numeric_limits<uint64_t>::max();
};

// Clocks of one rank over all segments, in integer nanoseconds (exact).
struct Clocks {
  int64_t train_ns = 0;         // sum over all step kinds: first batch requested .. end, evaluation excluded
  int64_t train_legacy_ns = 0;  // without batch_load and checkpoint: MLBench's batch_start..batch_end
  std::array<int64_t, kStepKinds> kinds_ns{};
  int64_t steps = 0;  // redone steps count again
  int64_t samples = 0;
};
// `until`: one at which an event was recorded, for merged steps end there.
Clocks derive_clocks(const std::vector<RankSpool>& segments_of_one_rank, const Moment& until = {});

// Seconds by the names of the kinds.
spec::NamedNumbers seconds_by_kind(const Clocks& clocks);

// Seconds since the first batch as --max-time and "accuracy after time" count them, in nanoseconds: the train clock and
// rank 0's evaluations.
int64_t evaluation_ns(const RankSpool& spool);
int64_t elapsed_ns(const std::vector<RankSpool>& segments_of_one_rank);

}  // namespace mlbench::record
