#pragma once

// How long training took, computed again from step records.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "mlbench/record/spool.h"
#include "mlbench/spec/fields.h"

namespace mlbench::record {

// The moment when the first `step` steps of a segment were done. The default is the end of the run.
struct Moment {
  int64_t segment = std::numeric_limits<int64_t>::max();  // counts from 1
  uint64_t step = std::numeric_limits<uint64_t>::max();
};

// The clocks of one rank over all segments, in integer nanoseconds (exact).
struct Clocks {
  int64_t train_ns = 0;         // sum over all step kinds: from the first batch request to the end, without evaluation
  int64_t train_legacy_ns = 0;  // without batch_load and checkpoint: from MLBench's batch_start to batch_end
  std::array<int64_t, kStepKinds> kinds_ns{};
  int64_t steps = 0;  // repeated steps count again
  int64_t samples = 0;
};
// The clocks up to `until`, which must be a moment at which an event was recorded: merged steps end there.
Clocks derive_clocks(const std::vector<RankSpool>& segments_of_one_rank, const Moment& until = {});

// Seconds by the names of the step kinds.
spec::NamedNumbers seconds_by_kind(const Clocks& clocks);

// The share of time in which an accelerator did not wait for data (docs/rules.md): fwd_pass, comp_loss and backprop
// over these and batch_load. Empty where batch_load is not known, or passes took no time.
std::optional<double> accelerator_utilisation(const spec::NamedNumbers& steps_s);

// `batch_load` of each rank, of all its segments; empty where a rank recorded no steps.
std::optional<std::vector<double>> waited_for_data_s(const std::vector<std::vector<RankSpool>>& ranks);

// The record's throughput.median_samples_per_s (build_record.h).
std::optional<double> median_rate(const std::vector<RankSpool>& segments_of_one_rank, int64_t workers);

// The time since the first batch as --max-time and "accuracy after time" count it: train clock and rank 0's
// evaluations.
int64_t evaluation_ns(const RankSpool& spool);
int64_t elapsed_ns(const std::vector<RankSpool>& segments_of_one_rank);

}  // namespace mlbench::record
