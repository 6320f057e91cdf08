#pragma once

// The matrix of all ordered pairs of ranks: latency (ping-pong, half the round trip) and bandwidth (a window of
// messages, then an acknowledgement). The clock of the rank that begins counts, and the best median of three passes.

#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/collectives/memory.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/record/collectives.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

using Round = std::vector<std::pair<int, int>>;  // pairs (from, to) measured at once; no rank is in two

// Has every ordered pair once. A round has one pair or, if `disjoint`, as many as there are disjoint pairs (the rounds
// of a tournament, each followed by its reverse).
std::vector<Round> rounds_of_pairs(int ranks, bool disjoint);

// Measures as spec.pairs says. Precondition: there are at least two ranks, and each has two buffers of the larger of
// the two sizes. Collective; the result is complete on rank 0 and empty elsewhere. While a pair is measured, the other
// ranks wait in a barrier.
record::PairMatrix measure_pairs(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory,
                                 const Clock& clock);

}  // namespace mlbench::collectives
