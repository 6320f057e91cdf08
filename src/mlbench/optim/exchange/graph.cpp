#include "mlbench/optim/exchange/graph.h"

#include <algorithm>
#include <cmath>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

// Weights that differ by less are meant to be the same.
constexpr double kWeightTolerance = 1e-9;

struct TopologyRow {
  const char* name;
  std::optional<Topology> topology;
};
constexpr TopologyRow kTopologies[] = {{"ring", Topology::kRing},
                                       {"torus", Topology::kTorus},
                                       {"complete", Topology::kComplete},
                                       {"exponential", Topology::kExponential},
                                       {"custom", std::nullopt}};

// 1, 2, 4, ... below `size`, in turn.
int directed_hop(int size, int64_t round) {
  int hops = 1;
  while ((1 << hops) < size) ++hops;
  return 1 << (round % hops);
}

Mixing part_of_rank(const at::Tensor& matrix, int rank) {
  const auto weights = matrix.accessor<double, 2>();
  Mixing mixing;
  mixing.own = weights[rank][rank];
  for (int other = 0; other < matrix.size(0); ++other) {
    if (other == rank) continue;
    if (weights[other][rank] > 0) mixing.to.push_back(other);
    if (weights[rank][other] == 0) continue;
    mixing.from.push_back(other);
    mixing.weights.push_back(weights[rank][other]);
  }
  return mixing;
}

bool is_plain_mean(const Mixing& mixing) {
  return std::ranges::all_of(mixing.weights,
                             [&](double weight) { return std::abs(weight - mixing.own) < kWeightTolerance; });
}

}  // namespace

GraphOptions read_graph(OptionReader& options, const std::string& otherwise) {
  const std::string name = options.choice("topology", otherwise, names_of(kTopologies));
  GraphOptions graph{row_named(kTopologies, "topology", name).topology, options.text("edges", ""),
                     options.text("weights", "")};
  const bool given = !graph.edges.empty() || !graph.weights.empty();
  if (graph.topology && given) {
    throw UserError("topology \"" + name + "\" with edges or weights; expected topology \"custom\" with them");
  }
  if (!graph.topology && graph.edges.empty() == graph.weights.empty()) {
    throw UserError(std::string("topology \"custom\" with ") + (given ? "both edges and weights" : "no edges") +
                    "; expected either edges such as \"0-1,1-2\", or weights such as \"0.5 0.5; 0.5 0.5\"");
  }
  return graph;
}

Graph::Graph(const GraphOptions& options, MixingDemand demand, int rank, int size)
    : topology_(options.topology),
      directed_(options.topology == Topology::kExponential && demand == MixingDemand::kColumnStochastic),
      rank_(rank),
      size_(size) {
  if (topology_) {
    mixing(0);
    return;
  }
  custom_ = part_of_rank(options.edges.empty() ? matrix_of_weights(options.weights, demand, size)
                                               : matrix_of_edges(options.edges, demand, size),
                         rank);
}

Mixing Graph::mixing(int64_t round) const {
  if (!topology_) return custom_;
  Mixing mixing;
  if (directed_ && size_ > 1) {
    const int hop = directed_hop(size_, round);
    mixing.from = {(rank_ + size_ - hop) % size_};
    mixing.to = {(rank_ + hop) % size_};
  } else {
    mixing.from = neighbours_of(*topology_, rank_, size_, round);
    mixing.to = mixing.from;
  }
  mixing.own = 1 / static_cast<double>(mixing.from.size() + 1);
  mixing.weights.assign(mixing.from.size(), mixing.own);
  return mixing;
}

void mix(const Mixing& mixing, int rank, const std::vector<at::Tensor>& received, at::Tensor& values) {
  const at::Tensor own = values.clone();
  if (!is_plain_mean(mixing)) {
    for (size_t i = 0; i < received.size(); ++i) values.add_(at::sub(received[i], own), mixing.weights[i]);
    return;
  }
  values.zero_();
  const auto above = std::ranges::lower_bound(mixing.from, rank) - mixing.from.begin();
  for (ptrdiff_t i = 0; i < above; ++i) values.add_(received[static_cast<size_t>(i)]);
  values.add_(own);
  for (auto i = static_cast<size_t>(above); i < received.size(); ++i) values.add_(received[i]);
  values.div_(static_cast<double>(received.size() + 1));
}

}  // namespace mlbench::optim
