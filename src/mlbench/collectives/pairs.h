#pragma once

// The matrix of all ordered pairs of ranks: latency (ping-pong, half the round trip) and bandwidth (a window of
// messages, then an acknowledgement), each by the clock of the rank that begins: the best median of three passes.

#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/collectives/memory.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/record/collectives.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

using Round = std::vector<std::pair<int, int>>;  // pairs (from, to) that are measured at once, no rank in two of them

// Every ordered pair once: one in each round, or as many as there are disjoint ones (the rounds of a tournament, each
// then the other way round).
std::vector<Round> rounds_of_pairs(int ranks, bool disjoint);

// As spec.pairs asks; at least two ranks. Collective; complete on rank 0, empty elsewhere. While a pair is measured the
// other ranks wait in a barrier. Each rank needs two buffers of the larger of the two sizes.
record::PairMatrix measure_pairs(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory,
                                 const Clock& clock);

}  // namespace mlbench::collectives
