#include "mlbench/optim/exchange/gossip.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"

namespace mlbench::optim {

namespace {

constexpr int kTag = 7;

// The largest divisor of `size` that is at most its root.
int rows_of_torus(int size) {
  int rows = 1;
  for (int divisor = 2; divisor * divisor <= size; ++divisor) {
    if (size % divisor == 0) rows = divisor;
  }
  return rows;
}

std::vector<int> torus_neighbours(int rank, int size) {
  const int rows = rows_of_torus(size), columns = size / rows;
  const int row = rank / columns, column = rank % columns;
  const auto at = [&](int r, int c) { return ((r + rows) % rows) * columns + (c + columns) % columns; };
  return {at(row - 1, column), at(row + 1, column), at(row, column - 1), at(row, column + 1)};
}

}  // namespace

std::vector<int> neighbours_of(Topology topology, int rank, int size, int64_t round) {
  std::vector<int> neighbours;
  switch (topology) {
    case Topology::kRing:
      neighbours = {(rank + 1) % size, (rank + size - 1) % size};
      break;
    case Topology::kTorus:
      neighbours = torus_neighbours(rank, size);
      break;
    case Topology::kComplete:
      for (int other = 0; other < size; ++other) neighbours.push_back(other);
      break;
    case Topology::kExponential: {
      if ((size & (size - 1)) != 0) {
        throw UserError(fmt::format(
            "topology \"exponential\" with {} ranks; expected a power of two, or topology ring, torus, complete",
            size));
      }
      int bits = 0;
      while ((1 << bits) < size) ++bits;
      if (bits > 0) neighbours = {rank ^ (1 << (round % bits))};
      break;
    }
  }
  std::ranges::sort(neighbours);
  neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
  std::erase(neighbours, rank);
  return neighbours;
}

GossipExchange::GossipExchange(const ExchangeContext& context, const GossipOptions& options)
    : comm_(context.comm),
      bytes_(static_cast<uint64_t>(context.layout.parameter_count()) * sizeof(float)),
      options_(options) {
  if (!context.coder.sends_gradient()) {
    throw UserError("compression '" + context.coder.name() +
                    "' with the pattern gossip, which sends parameters; expected compression \"none\"");
  }
  if (context.memory != nullptr) {
    throw UserError("the pattern gossip sends parameters from the host's memory; expected a framework on the CPU");
  }
  neighbours_of(options.topology, comm_.rank(), comm_.size(), 0);
}

Promise GossipExchange::promise() const {
  if (comm_.size() == 1) return {true, true, 0};
  Promise promise{false, false, std::nullopt};
  if (options_.every == 1) {
    promise.bytes_per_step = bytes_ * neighbours_of(options_.topology, comm_.rank(), comm_.size(), 0).size();
  }
  return promise;
}

void GossipExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
}

uint64_t GossipExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  if (step_.share > 0) tensors_->gradients.div_(step_.share);
  tensors_ = nullptr;
  return 0;
}

uint64_t GossipExchange::after_update(FlatTensors& tensors) {
  if (comm_.size() == 1 || ++updates_ % options_.every != 0) return 0;
  const std::vector<int> neighbours = neighbours_of(options_.topology, comm_.rank(), comm_.size(), rounds_++);
  const at::Tensor own = tensors.parameters.clone();
  std::vector<at::Tensor> received;
  std::vector<std::unique_ptr<comm::Work>> under_way;
  for (const int peer : neighbours) {
    received.push_back(at::empty_like(own));
    under_way.push_back(comm_.recv_async(view_of(received.back()), peer, kTag));
  }
  for (const int peer : neighbours) under_way.push_back(comm_.send_async(view_of(own), peer, kTag));
  for (const auto& work : under_way) work->synchronize();
  // In the order of ranks, so that a complete graph gives all ranks the same bits.
  at::Tensor& sum = tensors.parameters;
  sum.zero_();
  size_t next = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) {
      sum.add_(own);
    } else if (next < neighbours.size() && neighbours[next] == rank) {
      sum.add_(received[next++]);
    }
  }
  sum.div_(static_cast<double>(neighbours.size() + 1));
  return bytes_ * neighbours.size();
}

void GossipExchange::export_state(NamedState& state) const {
  state.scalars["exchange/updates"] = updates_;
  state.scalars["exchange/rounds"] = rounds_;
}

void GossipExchange::import_state(const NamedState& state) {
  updates_ = state.integer("exchange/updates");
  rounds_ = state.integer("exchange/rounds");
}

Json GossipExchange::effective() const {
  return {{"overlap", false}, {"buckets", 1}, {"by_layer", false}, {"one_collective", false}};
}

}  // namespace mlbench::optim
