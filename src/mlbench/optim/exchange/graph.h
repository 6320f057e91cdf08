#pragma once

// How ranks mix with their neighbours. In a round each rank i replaces its values x_i by the sum over j of W_ij x_j,
// where W is the matrix of the round. With the weight 1 / (1 + degree) for a rank and each of its neighbours
// (neighbours.h) W is symmetric, has no negative element and rows that sum to 1, so that the mean over all ranks stays
// as it is. A custom graph has the weights that its edges or its matrix give it (custom_graph.h).
//
// Where columns alone must sum to 1, the topology "exponential" is directed: in a round rank i sends to i + 2^t alone,
// and receives from i - 2^t, with the weight 1 / 2. t is 0, 1, ... in turn as long as 2^t is below the number of ranks,
// which may be any (Assran et al. 2019).

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/options.h"
#include "mlbench/optim/exchange/custom_graph.h"
#include "mlbench/optim/exchange/neighbours.h"

namespace mlbench::optim {

// A rank's part in a round. Ranks are in ascending order.
struct Mixing {
  std::vector<int> to;          // the ranks that take this rank's values
  std::vector<int> from;        // the ranks whose values this rank takes
  std::vector<double> weights;  // W of the values of each of `from`
  double own = 1;               // W of this rank's own values
};

struct GraphOptions {
  std::optional<Topology> topology = Topology::kRing;  // empty: a custom graph
  std::string edges, weights;                          // of a custom graph: one of the two
};

// Reads the options "topology", whose default is given, "edges" and "weights". Throws UserError where the last two do
// not fit the first.
GraphOptions read_graph(OptionReader& options, const std::string& otherwise = "ring");

// The graph as one rank sees it.
class Graph {
 public:
  // Throws UserError where the topology has no such number of ranks, and for a custom graph that is not of so many or
  // does not meet the demand.
  Graph(const GraphOptions& options, MixingDemand demand, int rank, int size);

  Mixing mixing(int64_t round) const;
  // Whether neighbours and weights differ from round to round.
  bool changes() const { return topology_ == Topology::kExponential; }

 private:
  std::optional<Topology> topology_;
  bool directed_;
  int rank_, size_;
  Mixing custom_;
};

// `values` become what the mixing makes of them and of those that were `received`, in the order of `mixing.from`.
// Precondition: the weights sum to 1. Where all are the same, the result is the plain mean, added in the order of
// ranks: on a complete graph all ranks then have the same bits. Otherwise it is x_i + the sum of W_ij (x_j - x_i), so
// that ranks that agree stay as they are to the bit.
void mix(const Mixing& mixing, int rank, const std::vector<at::Tensor>& received, at::Tensor& values);

}  // namespace mlbench::optim
