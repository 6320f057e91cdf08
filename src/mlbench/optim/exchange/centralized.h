#pragma once

// The gradient of the whole step on every rank: the coder's payload is summed (or gathered) over all ranks. One
// collective per coder round, or one per bucket of the gradient (per tensor, or of a size; for a coder whose payload is
// the gradient), the last layer's first, one after the other when the backward pass is over. With one rank nothing is
// sent.

#include <vector>

#include "mlbench/optim/exchange/buckets.h"
#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

struct CentralizedOptions {
  bool by_layer = false;  // one collective per tensor
  // Above 0: buckets of this many MiB, the first of at most 1 MiB (PyTorch's rule). 0: one for all.
  double bucket_mb = 0;
};

class CentralizedExchange final : public Exchange {
 public:
  // UserError: a negative size, buckets by layer, or buckets of a gradient that the coder compresses.
  CentralizedExchange(const ExchangeContext& context, const CentralizedOptions& options);
  Promise promise() const override;
  void begin(int64_t step, FlatTensors& tensors) override;
  uint64_t finish() override;
  Json effective() const override;

 private:
  std::vector<at::Tensor> combine_payload(const compress::Payload& payload);

  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  CentralizedOptions options_;
  std::vector<Bucket> buckets_;  // empty: the payload as it is
  FlatTensors* tensors_ = nullptr;
};

}  // namespace mlbench::optim
