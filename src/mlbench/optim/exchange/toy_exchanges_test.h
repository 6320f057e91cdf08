#pragma once

// For tests: an exchange of the smallest kind, whose ranks hold different weights and which has a state of its own.

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

// Each rank steps by the gradient of its own samples. After every `every`-th update it averages its parameters with
// those of its two neighbours in the ring (with two ranks: of the one neighbour).
class NeighbourAveraging final : public Exchange {
 public:
  NeighbourAveraging(const ExchangeContext& context, int64_t every)
      : comm_(context.comm), parameters_(context.layout.parameter_count()), every_(every) {}

  Promise promise() const override {
    Promise promise{false, false, std::nullopt};
    if (comm_.size() == 1) promise = {true, true, 0};
    if (comm_.size() > 1 && every_ == 1) promise.bytes_per_step = bytes();
    return promise;
  }

  void begin(const compress::StepContext& step, FlatTensors& tensors) override {
    tensors_ = &tensors;
    share_ = step.share;
  }
  uint64_t finish() override {
    if (share_ > 0) tensors_->gradients /= share_;  // the mean of this rank's samples
    return 0;
  }

  uint64_t after_update(FlatTensors& tensors) override {
    if (comm_.size() == 1 || ++updates_ % every_ != 0) return 0;
    const int size = comm_.size(), right = (comm_.rank() + 1) % size, left = (comm_.rank() + size - 1) % size;
    const at::Tensor own = tensors.parameters.clone(), from_left = at::empty_like(own),
                     from_right = at::empty_like(own);
    const auto first = comm_.recv_async(view_of(from_left), left, kToTheRight);
    const auto sent = comm_.send_async(view_of(own), right, kToTheRight);
    if (size > 2) {
      const auto second = comm_.recv_async(view_of(from_right), right, kToTheLeft);
      comm_.send_async(view_of(own), left, kToTheLeft)->synchronize();
      second->synchronize();
      tensors.parameters += from_right;
    }
    sent->synchronize();
    first->synchronize();
    tensors.parameters += from_left;
    tensors.parameters /= size > 2 ? 3 : 2;
    return bytes();
  }

  void export_state(NamedState& state) const override { state.scalars["exchange/updates"] = updates_; }
  void import_state(const NamedState& state) override { updates_ = state.integer("exchange/updates"); }
  Json effective() const override { return effective_as_a_whole(true); }

 private:
  static constexpr int kToTheRight = 1, kToTheLeft = 2;
  uint64_t bytes() const { return static_cast<uint64_t>(parameters_) * sizeof(float) * (comm_.size() > 2 ? 2 : 1); }

  comm::Communicator& comm_;
  int64_t parameters_;
  int64_t every_;
  int64_t updates_ = 0;
  double share_ = 1;
  FlatTensors* tensors_ = nullptr;
};

}  // namespace mlbench::optim
