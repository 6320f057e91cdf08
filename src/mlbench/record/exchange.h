#pragma once

// Waiting for the slowest rank and moving bytes, told apart; and what of both the step waited for.
//
// Every rank's spool has how long each step's exchange took (StepRecord::exchange_ns). The rank that came last waited
// for nobody, so the shortest of all ranks is what the transfer took; what another's took longer, that rank waited.
// Right for one blocking collective per step. Of several, a rank may wait in one and be waited for in the next: then
// the true wait is at least, the true transfer at most what is computed here.
//
// Hidden is what ran while the rank computed the gradient (StepRecord::hidden_ns), exposed is the rest: waiting and
// moving alike.

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
  int64_t transfer_ns = 0;                     // the same for all ranks
  std::vector<int64_t> exposed_ns, hidden_ns;  // of each rank; their sum is that of wait and transfer
  int64_t steps = 0;      // that all ranks recorded: the others are left out; redone steps count again
  bool all_steps = true;  // none was left out
};

// Sums over the segments from 1 to `segments`, up to a moment. Reads the spools of all ranks side by side, in little
// memory. UserError, naming the file, when one is lost or damaged.
ExchangeTimes derive_exchange(const std::filesystem::path& run_dir, int64_t workers, int64_t segments,
                              const Moment& until = {});

// `exchange` of the record; empty where nothing is exchanged or it is not known. `effective`: the record's. `notes`, of
// a run that has ended: why it is not known, or not of all steps; null: nowhere.
std::optional<Exchange> exchange_of(const spec::RunSpec& spec, int64_t segments, const Choices& effective,
                                    std::vector<std::string>* notes, const Moment& until = {});

}  // namespace mlbench::record
