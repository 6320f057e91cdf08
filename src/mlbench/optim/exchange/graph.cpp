#include "mlbench/optim/exchange/graph.h"

#include <algorithm>

#include "mlbench/base/choices.h"

namespace mlbench::optim {

namespace {

struct TopologyRow {
  const char* name;
  Topology topology;
};
constexpr TopologyRow kTopologies[] = {{"ring", Topology::kRing},
                                       {"torus", Topology::kTorus},
                                       {"complete", Topology::kComplete},
                                       {"exponential", Topology::kExponential}};

}  // namespace

GraphOptions read_graph(OptionReader& options) {
  const std::string name = options.choice("topology", "ring", names_of(kTopologies));
  return {row_named(kTopologies, "topology", name).topology};
}

Graph::Graph(const GraphOptions& options, int rank, int size) : options_(options), rank_(rank), size_(size) {
  neighbours_of(options.topology, rank, size, 0);
}

Mixing Graph::mixing(int64_t round) const {
  Mixing mixing;
  mixing.from = neighbours_of(options_.topology, rank_, size_, round);
  mixing.to = mixing.from;
  mixing.own = 1 / static_cast<double>(mixing.from.size() + 1);
  mixing.weights.assign(mixing.from.size(), mixing.own);
  return mixing;
}

void mix(const Mixing& mixing, int rank, const std::vector<at::Tensor>& received, at::Tensor& values) {
  const at::Tensor own = values.clone();
  values.zero_();
  const auto above = std::ranges::lower_bound(mixing.from, rank) - mixing.from.begin();
  for (ptrdiff_t i = 0; i < above; ++i) values.add_(received[static_cast<size_t>(i)]);
  values.add_(own);
  for (auto i = static_cast<size_t>(above); i < received.size(); ++i) values.add_(received[i]);
  values.div_(static_cast<double>(received.size() + 1));
}

}  // namespace mlbench::optim
