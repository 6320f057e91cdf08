#pragma once

// The gradient of the whole step on every rank: the coder's payload is summed (or gathered) over all ranks. One
// collective per coder round, or one per tensor when `by_layer` (for a coder whose payload is the gradient). With one
// rank nothing is sent.

#include <utility>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"

namespace mlbench::optim {

class CentralizedExchange final : public Exchange {
 public:
  // `comm` and `coder` outlive the exchange.
  CentralizedExchange(comm::Communicator& comm, compress::GradientCoder& coder, const FlatLayout& layout,
                      bool by_layer);
  uint64_t aggregate(FlatTensors& tensors) override;

 private:
  at::Tensor combine(const compress::Payload& payload);

  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  std::vector<std::pair<int64_t, int64_t>> pieces_;  // by_layer: offset and count of each tensor; else empty
};

}  // namespace mlbench::optim
