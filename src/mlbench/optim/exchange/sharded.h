#pragma once

// "sharded": the optimizer's state in k parts, one per rank (ZeRO stage 1, Rajbhandari et al. 2020). The flat buffers
// are cut into k parts of ceil(n / k) elements. Gradients are summed by a reduce-scatter, so that each rank has the
// sum of its own part; its rule updates that part alone, and has state for it alone; an all-gather brings the updated
// parts to all ranks. What comes out is what "centralized" gives, but for the order of additions.
//
// Bytes per rank and step, with n rounded up to a multiple of k: 4 n for the reduce-scatter and 4 n / k for the
// all-gather. State of the rule per rank: 1 / k of that of "centralized".

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

class ShardedExchange final : public Exchange {
 public:
  // Throws UserError for a coder other than "none", and for tensors in separate memory.
  explicit ShardedExchange(const ExchangeContext& context);
  Promise promise() const override;
  std::optional<FlatPart> own_part() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  uint64_t after_update(FlatTensors& tensors) override;
  Json effective() const override;

 private:
  comm::Communicator& comm_;
  int64_t elements_, part_elements_;
  FlatTensors* tensors_ = nullptr;
  at::Tensor whole_, part_;  // padded to k parts of one length
};

}  // namespace mlbench::optim
