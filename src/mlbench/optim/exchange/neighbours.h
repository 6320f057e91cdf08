#pragma once

// Graphs over which ranks exchange with their neighbours alone (graph.h has the weights):
//
//   ring         both neighbours
//   torus        those above, below, left and right, on a grid as square as the number of ranks allows
//   complete     all others
//   exponential  one peer per round, rank xor 2^t, t = 0, 1, ... in turn; for numbers of ranks that are powers of two
//                (Assran et al. 2019, undirected)

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mlbench/comm/communicator.h"

namespace mlbench::optim {

enum class Topology { kRing, kTorus, kComplete, kExponential };

// The ranks that `rank` of `size` exchanges with in the round `round`, in ascending order. Throws UserError where the
// topology has no such number of ranks.
std::vector<int> neighbours_of(Topology topology, int rank, int size, int64_t round);

// Sends `own` to each of the ranks `to`, and receives from each of the ranks `from` a tensor of the same type and
// shape, in their order. All ranks call it, with the same `tag`; a rank that is sent to has the sender in its `from`.
std::vector<at::Tensor> exchange_with(comm::Communicator& comm, const std::vector<int>& to,
                                      const std::vector<int>& from, const at::Tensor& own, int tag);

}  // namespace mlbench::optim
