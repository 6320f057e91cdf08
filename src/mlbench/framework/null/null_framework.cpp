#include "mlbench/framework/null/null_framework.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::framework::null_framework {

namespace {

constexpr size_t kAlignment = 64;

std::shared_ptr<std::byte> allocate(size_t bytes) {
  const size_t whole = std::max<size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, whole);
  return {memory, [](std::byte* one) { std::free(one); }};
}

struct Flat {
  Flat(int64_t elements, const MakeMemory& make)
      : memory(make(static_cast<size_t>(elements) * sizeof(float))),
        view{memory.get(), elements, DType::kFloat32, {}} {}
  std::shared_ptr<std::byte> memory;
  BufferView view;
};

class NullFramework final : public Framework {
 public:
  explicit NullFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        parameters_(layout_.parameter_elements, allocate),
        gradients_(layout_.parameter_elements, options.gradient_memory ? options.gradient_memory : allocate),
        buffers_(layout_.buffer_elements, allocate) {}

  const FlatLayout& layout() const override { return layout_; }
  BufferView parameters() override { return parameters_.view; }
  BufferView gradients() override { return gradients_.view; }
  BufferView buffers() override { return buffers_.view; }

  void initialise() override {
    models::initialise(options_.model, layout_, options_.seed, values_of(parameters_.view), values_of(buffers_.view));
  }

  void begin_step(int64_t) override {}
  void forward(const BatchView& batch, Mode) override {
    weight_ = batch.weight;
    // A model over tokens has no outputs per sample.
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
  Flat parameters_, gradients_, buffers_;
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
