#include "mlbench/framework/torch/torch_framework.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <mutex>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/torch/gradients.h"
#include "mlbench/framework/torch/operations.h"

namespace mlbench::framework::torch_framework {

namespace {

// Mean over the batch, from logits and int64 labels.
using Loss = at::Tensor (*)(const at::Tensor& outputs, const at::Tensor& labels);
struct LossRow {
  const char* name;
  Loss loss;
};
constexpr LossRow kLosses[] = {
    {"cross_entropy",
     [](const at::Tensor& outputs, const at::Tensor& labels) { return at::cross_entropy_loss(outputs, labels); }},
};

Loss find_loss(const std::string& name) {
  std::vector<const char*> names;
  for (const LossRow& row : kLosses) {
    if (row.name == name) return row.loss;
    names.push_back(row.name);
  }
  throw UserError(fmt::format("framework 'torch' has no loss '{}'; valid: {}", name, fmt::join(names, ", ")));
}

// In which convolutions and linear layers multiply.
at::ScalarType product_type_of(const std::string& precision) {
  if (precision == "float32") return at::kFloat;
  if (precision == "bf16") return at::kBFloat16;
  const char* reason =
      precision == "tf32" ? "tf32 is a format of NVIDIA GPUs, and this framework runs on the CPU" : "it is unknown";
  throw UserError(
      fmt::format("framework 'torch' has no precision '{}' here ({}); valid: float32, bf16", precision, reason));
}

void use_threads(int threads) {
  at::set_num_threads(threads);
  static std::once_flag once;
  std::call_once(once, [] { at::set_num_interop_threads(1); });
}

class TorchFramework final : public Framework {
 public:
  explicit TorchFramework(const FrameworkOptions& options)
      : options_(options), layout_(models::lay_out(options.model)), loss_function_(find_loss(options.loss)) {
    const at::ScalarType product_type = product_type_of(options.precision);
    use_threads(options.threads);
    parameters_ = at::zeros({layout_.parameter_elements}, at::kFloat);
    gradients_ = at::zeros({layout_.parameter_elements}, at::kFloat);
    buffers_ = at::zeros({layout_.buffer_elements}, at::kFloat);
    network_ = build({options_.model, [this](const std::string& name) { return parameter(name); }, gradient_buffer_,
                      options_.dropout, product_type});
  }

  const FlatLayout& layout() const override { return layout_; }
  at::Tensor parameters() override { return parameters_; }
  at::Tensor gradients() override { return gradients_; }
  at::Tensor buffers() override { return buffers_; }

  void initialise() override {
    const auto span_of = [](at::Tensor& flat) {
      return std::span(flat.data_ptr<float>(), static_cast<size_t>(flat.numel()));
    };
    models::initialise(options_.model, layout_, options_.seed, span_of(parameters_), span_of(buffers_));
  }

  void begin_step(int64_t step) override { step_ = step; }

  void forward(const BatchView& batch, Mode mode) override {
    loss_ = at::Tensor();
    labels_ = tensor_of(batch.labels, {batch.samples}, at::kLong);
    const at::AutoGradMode differentiate(mode == Mode::kTrain);
    at::Tensor x = features_of(batch);
    const Pass pass{mode == Mode::kTrain, options_.seed, options_.rank, step_};
    for (const Operation& operation : network_.operations) x = operation(x, pass);
    outputs_ = x;
  }

  double loss() override {
    if (!loss_.defined()) loss_ = loss_function_(outputs_, labels_);
    return loss_.item<double>();
  }

  void backward(double loss_scale, bool accumulate) override {
    if (!loss_.defined()) loss_ = loss_function_(outputs_, labels_);
    gradient_buffer_.begin(accumulate);
    loss_.backward(at::scalar_tensor(loss_scale, at::kFloat));
    loss_ = loss_.detach();
    outputs_ = outputs_.detach();
  }

  void zero_gradients() override { gradients_.zero_(); }

  std::span<const float> outputs() override {
    outputs_ = outputs_.contiguous();
    return {outputs_.const_data_ptr<float>(), static_cast<size_t>(outputs_.numel())};
  }

  void on_gradient_ready(GradientReady callback) override { gradient_buffer_.on_ready(std::move(callback)); }

  Json effective() const override {
    return {{"name", "torch"},
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
      if (!range.trainable) return {view(buffers_), 0};
      return {view(parameters_), gradient_buffer_.add_slot({view(gradients_), range.offset, range.count})};
    }
    MLBENCH_CHECK(false, "model '" + options_.model.name + "' has no parameter " + name);
    return {};
  }

  static at::Tensor tensor_of(const ConstBufferView& view, at::IntArrayRef shape, at::ScalarType type) {
    MLBENCH_CHECK(type == (view.dtype == DType::kInt64 ? at::kLong : at::kFloat) &&
                      (view.dtype == DType::kInt64 || view.dtype == DType::kFloat32),
                  fmt::format("a batch of {}", name_of(view.dtype)));
    // from_blob takes a writable pointer; nothing here writes to its input.
    return at::from_blob(const_cast<void*>(view.data), shape, type);
  }

  static at::Tensor features_of(const BatchView& batch) {
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
    features = features.view(shape);
    if (shape.size() != 4) return features;
    // Channels last: LibTorch's convolutions run about twice as fast so. With one channel both layouts are the same
    // memory, and only strides tell LibTorch which one is meant.
    if (shape[1] == 1) return features.as_strided(shape, {shape[2] * shape[3], 1, shape[3], 1});
    return features.contiguous(at::MemoryFormat::ChannelsLast);
  }

  FrameworkOptions options_;
  FlatLayout layout_;
  Loss loss_function_;
  at::Tensor parameters_, gradients_, buffers_;
  GradientBuffer gradient_buffer_;
  Network network_;
  int64_t step_ = 0;
  at::Tensor labels_, outputs_, loss_;
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Framework> make(const FrameworkOptions& options) { return std::make_unique<TorchFramework>(options); }

std::vector<std::pair<std::string, std::string>> environment(bool passive_wait) {
  if (passive_wait) return {{"OMP_WAIT_POLICY", "PASSIVE"}, {"GOMP_SPINCOUNT", "0"}};
  return {};
}

}  // namespace mlbench::framework::torch_framework
