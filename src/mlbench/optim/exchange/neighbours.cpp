#include "mlbench/optim/exchange/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"

namespace mlbench::optim {

namespace {

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

std::vector<at::Tensor> exchange_with(comm::Communicator& comm, const std::vector<int>& to,
                                      const std::vector<int>& from, const at::Tensor& own, int tag) {
  std::vector<at::Tensor> received;
  std::vector<std::unique_ptr<comm::Work>> under_way;
  for (const int peer : from) {
    received.push_back(at::empty_like(own));
    under_way.push_back(comm.recv_async(view_of(received.back()), peer, tag));
  }
  for (const int peer : to) under_way.push_back(comm.send_async(view_of(own), peer, tag));
  for (const auto& work : under_way) work->synchronize();
  return received;
}

}  // namespace mlbench::optim
