#pragma once

// Graphs that are given as a text: as edges, or as the matrix of weights itself (graph.h says what it does).

#include <ATen/ATen.h>

#include <string>

namespace mlbench::optim {

// What a pattern demands of the matrix W, whose element W_ij is the weight of rank j's values at rank i.
enum class MixingDemand {
  kDoublyStochastic,  // rows and columns sum to 1: the mean over all ranks stays
  kSymmetric,         // the same, and W_ij = W_ji
  kColumnStochastic,  // columns sum to 1: the sum over all ranks stays, and push-sum weights undo what rows lack
};

// The matrix of `edges`, for `size` ranks: a float64 tensor [size, size]. Edges are separated by commas. "0-1" connects
// ranks 0 and 1 with Metropolis weights (Xiao, Boyd & Kim 2007): W_01 = 1 / (1 + the larger degree of the two), and
// W_00 is what the others leave. With kColumnStochastic a rank instead shares its values evenly among itself and those
// whom it sends to, and "0>1" has rank 0 send to rank 1 alone. Throws UserError for anything else, for ranks that the
// run has not, and for a graph that never brings all ranks together.
at::Tensor matrix_of_edges(const std::string& edges, MixingDemand demand, int size);

// The matrix that `weights` has, row by row: "0.5 0.5; 0.5 0.5". A sum may differ from 1 by 1e-6. Throws UserError for
// a matrix of another size, and naming the row or column that does not meet the demand, with its sum; also as above.
at::Tensor matrix_of_weights(const std::string& weights, MixingDemand demand, int size);

}  // namespace mlbench::optim
