#pragma once

// Measures when layers go through a training pass, for the callback of Framework::on_layer.

#include <ATen/ATen.h>

#include <deque>
#include <string>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework::torch_framework {

// Forward, the time of a layer is that of its operation. Backward, a layer begins when the gradient of its output is
// there, which is when autograd comes to the layer's node. The layer ends when the next one begins, or the pass ends.
class LayerTimes {
 public:
  using Name = const std::string*;
  // A pointer to a copy of `name` that lives as long as this object.
  Name name(std::string name) { return &names_.emplace_back(std::move(name)); }

  void observe(const Clock& clock, Framework::LayerDone done) {
    clock_ = done ? &clock : nullptr;
    done_ = std::move(done);
  }

  // Calls `work`, the operation of a layer on `input`, and returns its output. In a training pass that is observed,
  // reports the layer's forward time, and notes its backward time when the gradient comes.
  template <typename Work>
  at::Tensor forward(Name layer, bool training, const at::Tensor& input, const Work& work) {
    if (clock_ == nullptr || !training) return work();
    const TimePoint begin = clock_->now();
    at::Tensor output = work();
    done_({*layer, LayerPass::kForward, begin, clock_->now()});
    // A layer that does nothing returns its input, whose node in autograd's graph belongs to the layer before.
    if (output.requires_grad() && !output.is_same(input)) {
      output.register_hook([this, layer](const at::Tensor&) { backward_begins(layer); });
    }
    return output;
  }
  // Must be called at the end of each backward pass; reports the last layer's time.
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
  Name layer_ = nullptr;  // the layer that goes backward now; null: none
  TimePoint begin_{};
};

}  // namespace mlbench::framework::torch_framework
