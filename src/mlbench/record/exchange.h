#pragma once

// Tells waiting for the slowest rank from moving bytes, and says for how much of both the step waited.
//
// Every rank's spool says how long each step's exchange took (StepRecord::exchange_ns). The rank that came last waited
// for nobody, so the shortest time of all ranks is the transfer; what another rank spent beyond that, it waited. This
// is right for one blocking collective per step. With several collectives, a rank may wait in one and be waited for in
// the next; then the true wait is at least, and the true transfer at most, what is computed here.
//
// The hidden part ran while the rank computed the gradient (StepRecord::hidden_ns). The exposed part is the rest. Both
// contain waiting and moving alike.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/clocks.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::record {

struct ExchangeTimes {
  std::vector<int64_t> wait_ns;                // of each rank
  int64_t transfer_ns = 0;                     // the same on all ranks
  std::vector<int64_t> exposed_ns, hidden_ns;  // of each rank; their sum is that of wait and transfer
  int64_t steps = 0;                           // steps that all ranks recorded; repeated steps count again
  bool all_steps = true;                       // no step was left out
};

// Sums over the segments 1 to `segments`, up to a moment. Reads the spools of all ranks side by side, in little memory.
// Throws UserError, naming the file, when a spool is lost or damaged.
ExchangeTimes derive_exchange(const std::filesystem::path& run_dir, int64_t workers, int64_t segments,
                              const Moment& until = {});

// The record's `exchange`; empty where nothing is exchanged, or where the times are not known. `effective` is the
// record's. For a run that has ended, `notes` (may be null) receives why times are not known, or not of all steps.
std::optional<Exchange> exchange_of(const spec::RunSpec& spec, int64_t segments, const Effective& effective,
                                    std::vector<std::string>* notes, const Moment& until = {});

}  // namespace mlbench::record
