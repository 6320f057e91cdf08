#include "mlbench/framework/emulated.h"

#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace mlbench::framework {

namespace {

constexpr int kForwardParts = 1, kParts = 3;

class EmulatedFramework final : public Framework {
 public:
  EmulatedFramework(std::unique_ptr<Framework> own, EmulatedAccelerator accelerator)
      : own_(std::move(own)), accelerator_(std::move(accelerator)) {
    if (!accelerator_.wait_until) accelerator_.wait_until = [](TimePoint due) { std::this_thread::sleep_until(due); };
    for (const FlatRange& range : own_->layout().ranges) {
      if (range.trainable) firsts_.push_back(range.offset);
    }
  }

  const FlatLayout& layout() const override { return own_->layout(); }
  BufferView parameters() override { return own_->parameters(); }
  BufferView gradients() override { return own_->gradients(); }
  BufferView buffers() override { return own_->buffers(); }
  SeparateMemory* separate_memory() override { return own_->separate_memory(); }
  void synchronize() override { own_->synchronize(); }
  void initialise() override { own_->initialise(); }

  void begin_step(int64_t step) override {
    own_->begin_step(step);
    begun_ = false;
  }
  void forward(const BatchView& batch, Mode mode) override {
    MLBENCH_CHECK(mode == Mode::kTrain, "an emulated accelerator evaluates nothing");
    weight_ = batch.weight;
    if (std::exchange(begun_, true)) return;
    const TimePoint end = accelerator_.clock.now() + forward_time();
    own_->zero_gradients();  // the exchange of the step before has written to them
    accelerator_.wait_until(end);
  }
  double loss() override { return std::numeric_limits<double>::quiet_NaN(); }
  MetricSums metric_sums() override { return {loss(), loss(), weight_}; }
  void backward(const BackwardOptions& options) override {
    if (!options.last) return;
    const TimePoint begin = accelerator_.clock.now();
    const auto time = static_cast<double>((accelerator_.step - forward_time()).count());
    const int64_t all = layout().parameter_elements;
    int64_t end = all;  // what lies behind is final
    for (auto first = firsts_.rbegin(); first != firsts_.rend(); ++first) {
      const double share = static_cast<double>(all - *first) / static_cast<double>(all);
      accelerator_.wait_until(begin + Nanoseconds(static_cast<Nanoseconds::rep>(time * share)));
      if (ready_) ready_(*first, end - *first);
      end = *first;
    }
  }
  void zero_gradients() override {
    own_->zero_gradients();
    if (ready_) ready_(0, layout().parameter_elements);
  }
  std::span<const float> outputs() override { throw UserError("an emulated accelerator has no outputs"); }
  std::vector<float> carried_state() override { return own_->carried_state(); }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    own_->set_carried_state(state, sequences);
  }
  void on_gradient_ready(GradientReady callback) override { ready_ = std::move(callback); }
  Json effective() const override { return own_->effective(); }
  Json versions() const override { return own_->versions(); }

 private:
  Nanoseconds forward_time() const { return accelerator_.step * kForwardParts / kParts; }

  std::unique_ptr<Framework> own_;
  EmulatedAccelerator accelerator_;
  std::vector<int64_t> firsts_;  // the first element of each trainable tensor, in neutral order
  GradientReady ready_;
  int64_t weight_ = 0;
  bool begun_ = false;  // the step has had its forward time
};

}  // namespace

std::unique_ptr<Framework> emulate(std::unique_ptr<Framework> own, EmulatedAccelerator accelerator) {
  return std::make_unique<EmulatedFramework>(std::move(own), std::move(accelerator));
}

}  // namespace mlbench::framework
