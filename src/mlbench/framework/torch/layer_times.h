#pragma once

// When layers go through a training pass, for whoever asks (Framework::on_layer).

#include <ATen/ATen.h>

#include <deque>
#include <string>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::torch_framework {

// Forward: around each layer's operation. Backward: a layer begins when the gradient of its output is there, which is
// when autograd comes to its node, and ends where the next one begins, or the pass ends.
class LayerTimes {
 public:
  using Name = const std::string*;
  // A copy that lives as long as this.
  Name name(std::string name) { return &names_.emplace_back(std::move(name)); }

  void observe(const Clock& clock, Framework::LayerDone done) {
    clock_ = done ? &clock : nullptr;
    done_ = std::move(done);
  }

  // The output of `work`, the operation of a layer on `input`.
  template <typename Work>
  at::Tensor forward(Name layer, bool training, const at::Tensor& input, const Work& work) {
    if (clock_ == nullptr || !training) return work();
    const TimePoint begin = clock_->now();
    at::Tensor output = work();
    done_({*layer, LayerPass::kForward, begin, clock_->now()});
    // A layer that does nothing hands its input on: that tensor's node is the layer's before.
    if (output.requires_grad() && !output.is_same(input)) {
      output.register_hook([this, layer](const at::Tensor&) { backward_begins(layer); });
    }
    return output;
  }
  void backward_ends() {
    if (layer_ != nullptr) backward_begins(nullptr);
  }

 private:
  void backward_begins(Name layer) {
    if (clock_ == nullptr) return;
    const TimePoint now = clock_->now();
    if (layer_ != nullptr) done_({*layer_, LayerPass::kBackward, begin_, now});
    layer_ = layer;
    begin_ = now;
  }

  std::deque<std::string> names_;
  const Clock* clock_ = nullptr;
  Framework::LayerDone done_;
  Name layer_ = nullptr;  // that goes backward
  TimePoint begin_{};
};

}  // namespace mlbench::framework::torch_framework
