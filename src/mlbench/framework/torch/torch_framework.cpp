#include "mlbench/framework/torch/torch_framework.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <mutex>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/threads.h"
#include "mlbench/framework/torch/gradients.h"
#include "mlbench/framework/torch/operations.h"
#include "mlbench/framework/torch/placement.h"

namespace mlbench::framework::torch_framework {

namespace {

struct Loss {
  const char* name;
  // Mean over the batch, from logits and int64 labels.
  at::Tensor (*mean)(const at::Tensor& logits, const at::Tensor& labels);
  // What metrics see.
  at::Tensor (*scores)(const at::Tensor& logits);
};
constexpr Loss kLosses[] = {
    {"cross_entropy",
     [](const at::Tensor& logits, const at::Tensor& labels) { return at::cross_entropy_loss(logits, labels); },
     [](const at::Tensor& logits) { return logits; }},
    {"binary_cross_entropy",
     // On logits: max(z, 0) - z y + log(1 + exp(-|z|)), which neither overflows nor meets log(0).
     [](const at::Tensor& logits, const at::Tensor& labels) {
       return at::binary_cross_entropy_with_logits(logits, labels.to(at::kFloat).view_as(logits));
     },
     [](const at::Tensor& logits) { return at::sigmoid(logits); }},
};

const Loss& find_loss(const std::string& name) {
  std::vector<const char*> names;
  for (const Loss& row : kLosses) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw UserError(fmt::format("framework 'torch' has no loss '{}'; valid: {}", name, fmt::join(names, ", ")));
}

// In which convolutions and linear layers multiply.
at::ScalarType product_type_of(const std::string& precision) {
  if (precision == "float32" || precision == "tf32") return at::kFloat;
  if (precision == "bf16") return at::kBFloat16;
  throw UserError(fmt::format("framework 'torch' has no precision '{}'; valid: float32, tf32, bf16", precision));
}

void use_threads(int threads) {
  at::set_num_threads(threads);
  static std::once_flag once;
  std::call_once(once, [] { at::set_num_interop_threads(1); });
}

class TorchFramework final : public Framework {
 public:
  explicit TorchFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        criterion_(find_loss(options.loss)),
        placement_(options.device, options.local_rank, options.precision),
        parameters_(placement_.make_flat(layout_.parameter_elements)),
        gradients_(placement_.device().is_cuda()
                       ? placement_.make_flat(layout_.parameter_elements)
                       : placement_.make_flat(make_gradients(options, layout_.parameter_elements))),
        buffers_(placement_.make_flat(layout_.buffer_elements)) {
    const at::ScalarType product_type = product_type_of(options.precision);
    use_threads(options.threads);
    pinned_ = bind_threads(options.cores);
    network_ =
        build({options_.model, [this](const std::string& name) { return parameter(name); }, gradient_buffer_,
               layer_times_, options_.dropout, options_.frozen_batch_norm, product_type, !placement_.separate()});
  }

  const FlatLayout& layout() const override { return layout_; }
  at::Tensor parameters() override { return parameters_.host; }
  at::Tensor gradients() override { return gradients_.host; }
  at::Tensor buffers() override { return buffers_.host; }

  void initialise() override {
    models::initialise(options_.model, layout_, options_.seed, values_of(parameters_.host), values_of(buffers_.host));
  }

  void begin_step(int64_t step) override { step_ = step; }

  void forward(const BatchView& batch, Mode mode) override {
    loss_ = at::Tensor();
    parameters_.upload();
    buffers_.upload();
    labels_ = placement_.bring(tensor_of(batch.labels, {batch.samples}, at::kLong));
    const at::AutoGradMode differentiate(mode == Mode::kTrain);
    Pass pass{mode == Mode::kTrain, options_.seed, options_.rank, step_, {}};
    if (network_.reads_rows) pass.rows = rows_of(batch);
    outputs_ = network_.forward(network_.reads_rows ? at::Tensor(at::empty({0})) : features_of(batch), pass);
    if (mode == Mode::kTrain) buffers_.download();
  }

  double loss() override {
    compute_loss();
    return loss_.item<double>() + penalty_;
  }

  void backward(double loss_scale, bool accumulate) override {
    compute_loss();
    if (options_.model.l2 > 0) {
      // First, so that a gradient is final when its operation has added its part.
      const double scale = loss_scale * options_.model.l2;
      if (accumulate) {
        gradients_.own.add_(parameters_.own, scale);
      } else {
        at::mul_out(gradients_.own, parameters_.own, at::scalar_tensor(scale, at::kFloat));
      }
      accumulate = true;
    }
    gradient_buffer_.begin(accumulate);
    loss_.backward(at::scalar_tensor(loss_scale, loss_.options()));
    layer_times_.backward_ends();
    loss_ = loss_.detach();
    outputs_ = outputs_.detach();
    gradients_.download();
    for (const auto& [first, count] : ready_) on_ready_(first, count);
    ready_.clear();
  }

  void zero_gradients() override {
    gradients_.own.zero_();
    gradients_.download();
    if (on_ready_) on_ready_(0, layout_.parameter_elements);
  }

  std::span<const float> outputs() override {
    scores_ = criterion_.scores(outputs_.detach()).to(at::kCPU).contiguous();
    return {scores_.const_data_ptr<float>(), static_cast<size_t>(scores_.numel())};
  }

  void on_gradient_ready(GradientReady callback) override {
    on_ready_ = std::move(callback);
    if (!on_ready_ || !placement_.separate()) return gradient_buffer_.on_ready(on_ready_);
    // Final for the host when they have come back.
    gradient_buffer_.on_ready([this](int64_t first, int64_t count) { ready_.emplace_back(first, count); });
  }

  void on_layer(const Clock& clock, LayerDone done) override { layer_times_.observe(clock, std::move(done)); }

  Json effective() const override {
    return {{"name", "torch"},
            {"device", placement_.name()},
            {"pinned", pinned_},
            {"page_locked", placement_.device().is_cuda()},
            {"precision", options_.precision},
            {"layout", "nhwc"},
            {"fused", false},
            {"kernels", network_.fused}};
  }

  Json versions() const override { return {{"libtorch", TORCH_VERSION}}; }

 private:
  Parameter parameter(const std::string& name) {
    for (const FlatRange& range : layout_.ranges) {
      if (range.name != name) continue;
      const auto view = [&range](const at::Tensor& flat) {
        return flat.narrow(0, range.offset, range.count).view(range.shape);
      };
      if (!range.trainable) return {view(buffers_.own), 0};
      return {view(parameters_.own), gradient_buffer_.add_slot({view(gradients_.own), range.offset, range.count})};
    }
    MLBENCH_CHECK(false, "model '" + options_.model.name + "' has no parameter " + name);
    return {};
  }

  void compute_loss() {
    if (loss_.defined()) return;
    loss_ = criterion_.mean(outputs_, labels_);
    penalty_ = 0;
    if (options_.model.l2 > 0) penalty_ = options_.model.l2 / 2 * parameters_.own.dot(parameters_.own).item<double>();
  }

  static RowSelection rows_of(const BatchView& batch) {
    MLBENCH_CHECK(
        batch.features.dtype == DType::kFloat32 &&
            (batch.dense() || static_cast<int64_t>(batch.rows.size()) == batch.samples),
        fmt::format("{} samples of {}, {} rows", batch.samples, name_of(batch.features.dtype), batch.rows.size()));
    return {static_cast<const float*>(batch.features.data), batch.dense() ? nullptr : batch.rows.data(), batch.samples,
            batch.sample_volume()};
  }

  static at::Tensor tensor_of(const ConstBufferView& view, at::IntArrayRef shape, at::ScalarType type) {
    MLBENCH_CHECK(type == (view.dtype == DType::kInt64 ? at::kLong : at::kFloat) &&
                      (view.dtype == DType::kInt64 || view.dtype == DType::kFloat32),
                  fmt::format("a batch of {}", name_of(view.dtype)));
    // from_blob takes a writable pointer; nothing here writes to its input.
    return at::from_blob(const_cast<void*>(view.data), shape, type);
  }

  at::Tensor features_of(const BatchView& batch) const {
    const int64_t volume = batch.sample_volume();
    at::Tensor features = tensor_of(batch.features, {batch.features.count / volume, volume}, at::kFloat);
    if (!batch.dense()) {
      const at::Tensor rows = at::from_blob(const_cast<int64_t*>(batch.rows.data()), {batch.samples}, at::kLong);
      features = features.index_select(0, rows);
    }
    MLBENCH_CHECK(features.size(0) == batch.samples,
                  fmt::format("{} samples, {} rows", batch.samples, features.size(0)));
    std::vector<int64_t> shape = batch.sample_shape;
    shape.insert(shape.begin(), batch.samples);
    features = placement_.bring(features.view(shape));
    if (shape.size() != 4) return features;
    // Channels last: LibTorch's convolutions run about twice as fast so. With one channel both layouts are the same
    // memory, and only strides tell LibTorch which one is meant.
    if (shape[1] == 1) return features.as_strided(shape, {shape[2] * shape[3], 1, shape[3], 1});
    return features.contiguous(at::MemoryFormat::ChannelsLast);
  }

  FrameworkOptions options_;
  FlatLayout layout_;
  const Loss& criterion_;
  Placement placement_;
  FlatBuffer parameters_, gradients_, buffers_;
  GradientBuffer gradient_buffer_;
  LayerTimes layer_times_;
  GradientReady on_ready_;
  std::vector<std::pair<int64_t, int64_t>> ready_;  // ranges whose gradients are final on the device
  Network network_;
  int64_t step_ = 0;
  bool pinned_ = false;
  at::Tensor labels_, outputs_, loss_, scores_;
  double penalty_ = 0;
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Framework> make(const FrameworkOptions& options) { return std::make_unique<TorchFramework>(options); }

}  // namespace mlbench::framework::torch_framework
