#pragma once

// A framework with separate memory that finds host code which reaches into that memory, for tests. Its flat buffers are
// on pages that are open while an operation of LibTorch runs (as if it were a kernel of a GPU), and closed otherwise.
// Host code that reads or writes there ends the process.

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "mlbench/base/test_far_pages.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/flat.h"

namespace mlbench::train::test {

// There is one object per process, as LibTorch's callbacks are global.
inline FarPages& far_pages() {
  static FarPages pages;
  [[maybe_unused]] static const at::CallbackHandle opened_by_operations =
      at::addGlobalCallback(at::RecordFunctionCallback(
                                [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                                  pages.open();
                                  return nullptr;
                                },
                                [](const at::RecordFunction&, at::ObserverContext*) { pages.close(); })
                                .scopes({at::RecordScope::FUNCTION}));
  return pages;
}

// A flat tensor of zeros on far pages.
inline at::Tensor far_zeros(int64_t elements) {
  const size_t bytes = std::max<size_t>(static_cast<size_t>(elements), 1) * sizeof(float);
  return at::from_blob(far_pages().allocate(bytes), {elements}, at::kFloat);
}

// Operations of LibTorch make the copies, as these may access the pages.
struct FarMemory final : SeparateMemory {
  void to_host(const BufferView& from, void* to) override {
    at::from_blob(to, {from.count}, at::kFloat).copy_(framework::flat_tensor(from));
  }
  void from_host(const void* from, const BufferView& to) override {
    framework::flat_tensor(to).copy_(at::from_blob(const_cast<void*>(from), {to.count}, at::kFloat));
  }
};

// Another framework, which computes on far buffers.
class FarFramework final : public framework::Framework {
 public:
  explicit FarFramework(std::unique_ptr<Framework> near)
      : near_(std::move(near)),
        parameters_(far_zeros(near_->layout().parameter_elements)),
        gradients_(far_zeros(near_->layout().parameter_elements)),
        buffers_(far_zeros(near_->layout().buffer_elements)) {}

  const models::FlatLayout& layout() const override { return near_->layout(); }
  BufferView parameters() override { return framework::flat_view(parameters_); }
  BufferView gradients() override { return framework::flat_view(gradients_); }
  BufferView buffers() override { return framework::flat_view(buffers_); }
  SeparateMemory* separate_memory() override { return &memory_; }

  void initialise() override {
    near_->initialise();
    parameters_.copy_(framework::flat_tensor(near_->parameters()));
    buffers_.copy_(framework::flat_tensor(near_->buffers()));
  }
  void begin_step(int64_t step) override { near_->begin_step(step); }
  void forward(const BatchView& batch, framework::Mode mode) override {
    framework::flat_tensor(near_->parameters()).copy_(parameters_);
    framework::flat_tensor(near_->buffers()).copy_(buffers_);
    near_->forward(batch, mode);
    buffers_.copy_(framework::flat_tensor(near_->buffers()));
  }
  double loss() override { return near_->loss(); }
  framework::MetricSums metric_sums() override { return near_->metric_sums(); }
  void backward(const framework::BackwardOptions& options) override {
    near_->backward(options);
    if (!ready_) gradients_.copy_(framework::flat_tensor(near_->gradients()));
  }
  void zero_gradients() override {
    near_->zero_gradients();
    if (!ready_) gradients_.zero_();
  }
  std::span<const float> outputs() override { return near_->outputs(); }
  void on_gradient_ready(GradientReady callback) override {
    ready_ = std::move(callback);
    if (!ready_) return near_->on_gradient_ready({});
    near_->on_gradient_ready([this](int64_t first, int64_t count) {
      gradients_.narrow(0, first, count).copy_(framework::flat_tensor(near_->gradients()).narrow(0, first, count));
      ready_(first, count);
    });
  }
  Json effective() const override { return near_->effective(); }
  Json versions() const override { return near_->versions(); }

 private:
  const std::unique_ptr<Framework> near_;
  FarMemory memory_;
  at::Tensor parameters_, gradients_, buffers_;
  GradientReady ready_;
};

}  // namespace mlbench::train::test
