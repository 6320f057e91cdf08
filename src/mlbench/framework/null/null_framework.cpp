#include "mlbench/framework/null/null_framework.h"

#include <utility>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::framework::null_framework {

namespace {

class NullFramework final : public Framework {
 public:
  explicit NullFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        parameters_(at::zeros({layout_.parameter_elements}, at::kFloat)),
        gradients_(make_gradients(options, layout_.parameter_elements)),
        buffers_(at::zeros({layout_.buffer_elements}, at::kFloat)) {}

  const FlatLayout& layout() const override { return layout_; }
  at::Tensor parameters() override { return parameters_; }
  at::Tensor gradients() override { return gradients_; }
  at::Tensor buffers() override { return buffers_; }

  void initialise() override {
    models::initialise(options_.model, layout_, options_.seed, values_of(parameters_), values_of(buffers_));
  }

  void begin_step(int64_t) override {}
  void forward(const BatchView& batch, Mode) override {
    weight_ = batch.weight;
    // Of tokens there are no outputs.
    samples_ = options_.model.is_graph() ? 0 : static_cast<size_t>(batch.samples);
    const size_t wanted = samples_ * static_cast<size_t>(options_.model.outputs);
    if (outputs_.size() < wanted) outputs_.resize(wanted);
  }
  double loss() override { return 0; }
  MetricSums metric_sums() override { return {0, 0, weight_}; }
  void backward(const BackwardOptions& options) override {
    if (ready_ && options.last) ready_(0, layout_.parameter_elements);
  }
  void zero_gradients() override {
    if (ready_) ready_(0, layout_.parameter_elements);
  }
  std::span<const float> outputs() override {
    return std::span(outputs_).first(samples_ * static_cast<size_t>(options_.model.outputs));
  }
  void on_gradient_ready(GradientReady callback) override { ready_ = std::move(callback); }
  Json effective() const override {
    return {{"name", "null"},   {"device", "cpu"}, {"precision", "float32"},
            {"layout", "none"}, {"pinned", false}, {"fused", false}};
  }
  Json versions() const override { return Json::object(); }

 private:
  FrameworkOptions options_;
  FlatLayout layout_;
  at::Tensor parameters_, gradients_, buffers_;
  std::vector<float> outputs_;
  size_t samples_ = 0;
  int64_t weight_ = 0;
  GradientReady ready_;
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Framework> make(const FrameworkOptions& options) {
  if (options.device != "cpu") throw UserError("framework 'null' has no device '" + options.device + "'; valid: cpu");
  return std::make_unique<NullFramework>(options);
}

}  // namespace mlbench::framework::null_framework
