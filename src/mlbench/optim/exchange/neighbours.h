#pragma once

// Graphs over which ranks exchange with their neighbours alone. With the weight 1 / (1 + degree) for a rank and each of
// its neighbours, the weights form a matrix that is symmetric, has no negative element and rows that sum to 1, so that
// the mean over all ranks stays as it is:
//
//   ring         both neighbours: 1 / 3 each (with two ranks 1 / 2)
//   torus        those above, below, left and right, on a grid as square as the number of ranks allows
//   complete     all others: 1 / k each
//   exponential  one peer per round, rank xor 2^t, t = 0, 1, ... in turn: 1 / 2; for numbers of ranks that are powers
//                of two (Assran et al. 2019, undirected)

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mlbench/comm/communicator.h"

namespace mlbench::optim {

enum class Topology { kRing, kTorus, kComplete, kExponential };

// The ranks that `rank` of `size` exchanges with in the round `round`, in ascending order. Throws UserError where the
// topology has no such number of ranks.
std::vector<int> neighbours_of(Topology topology, int rank, int size, int64_t round);

// Sends `own` to all neighbours, and receives from each a tensor of the same type and shape, in their order. Collective
// over neighbours, which all use the same `tag`.
std::vector<at::Tensor> exchange_with(comm::Communicator& comm, const std::vector<int>& neighbours,
                                      const at::Tensor& own, int tag);

}  // namespace mlbench::optim
