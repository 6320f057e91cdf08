#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/framework/tensorflow/factory.h"
#include "mlbench/framework/tensorflow/losses.h"
#include "mlbench/framework/tensorflow/network.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/threads.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

void check_options(const FrameworkOptions& options) {
  if (options.precision != kPrecisions[0]) {
    throw UserError(
        fmt::format("framework 'tensorflow' has no precision '{}'; valid: {}", options.precision, kPrecisions[0]));
  }
  if (options.device != kDevices[0]) {
    throw UserError(fmt::format("framework 'tensorflow' has no device '{}'; valid: {}", options.device, kDevices[0]));
  }
  if (options.model.is_graph()) {
    throw UserError(fmt::format("framework 'tensorflow' has no models over tokens (model '{}'); valid: torch, native",
                                options.model.name));
  }
}

class TensorFlowFramework final : public Framework, public LayerListener {
 public:
  explicit TensorFlowFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        criterion_(find_loss(options.model)),
        parameters_(at::zeros({layout_.parameter_elements}, at::kFloat)),
        gradients_(make_gradients(options, layout_.parameter_elements)),
        buffers_(at::zeros({layout_.buffer_elements}, at::kFloat)) {
    at::set_num_threads(options.threads);  // for what is computed beside TensorFlow, such as the optimizer
    // TensorFlow's threads are those that the network starts, and inherit the cores of their starter.
    const bool confined = !options.cores.empty() && bind_thread(std::span(options.cores));
    network_.emplace(options, layout_, parameters_.data_ptr<float>(), buffers_.data_ptr<float>(), *this);
    pinned_ = bind_threads(options.cores) && confined;
  }

  const FlatLayout& layout() const override { return layout_; }
  BufferView parameters() override { return flat_view(parameters_); }
  BufferView gradients() override { return flat_view(gradients_); }
  BufferView buffers() override { return flat_view(buffers_); }

  void initialise() override {
    models::initialise(options_.model, layout_, options_.seed, framework::values_of(parameters_),
                       framework::values_of(buffers_));
  }

  void begin_step(int64_t step) override {
    step_ = step;
    micro_batch_ = 0;
  }

  void forward(const BatchView& batch, Mode mode) override {
    const bool training = mode == Mode::kTrain;
    samples_ = batch.samples;
    weight_ = batch.weight;
    if (clock_ != nullptr) layer_began_ = clock_->now();
    network_->forward({features_of(batch), static_cast<const int64_t*>(labels_of(batch).data), samples_}, training,
                      [this](size_t layer, double p, std::span<float> mask) {
                        dropout_mask(models::dropout_key(options_.seed, options_.rank, step_, layer, micro_batch_), p,
                                     mask);
                      });
    if (training) ++micro_batch_;
    const std::span<const float> losses = network_->losses();
    sum_ = std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  double loss() override { return sum_ / static_cast<double>(samples_) + penalty_of(options_.model, parameters_); }
  MetricSums metric_sums() override {
    const double sum = sum_ / static_cast<double>(samples_) * static_cast<double>(weight_);
    return {sum, sum, weight_};
  }

  void backward(const BackwardOptions& options) override {
    accumulate_ = begin_gradients(options_.model, parameters_, gradients_, options);
    last_ = options.last;
    if (clock_ != nullptr) layer_began_ = clock_->now();
    network_->backward(static_cast<float>(options.scale / static_cast<double>(samples_)));
  }

  void zero_gradients() override {
    gradients_.zero_();
    if (ready_) ready_(0, layout_.parameter_elements);
  }

  std::span<const float> outputs() override {
    const std::span<const float> logits = network_->logits();
    scores_.assign(logits.begin(), logits.end());
    criterion_.scores(scores_);
    return scores_;
  }

  void on_gradient_ready(GradientReady callback) override { ready_ = std::move(callback); }

  void on_layer(const Clock& clock, LayerDone done) override {
    // With more threads for operations, layers overlap.
    clock_ = done && options_.inter_op_threads == 1 ? &clock : nullptr;
    done_ = std::move(done);
  }

  Json effective() const override {
    return {{"name", "tensorflow"}, {"device", "cpu"}, {"pinned", pinned_}, {"precision", options_.precision},
            {"layout", "nhwc"},     {"fused", false}};
  }
  Json versions() const override { return {{"tensorflow", library().TF_Version()}}; }

 private:
  void layer_done(size_t layer, const std::vector<std::span<const float>>& gradients) override {
    const LayerNote& note = network_->notes()[layer];
    for (size_t i = 0; i < gradients.size(); ++i) {
      const FlatRange& range = *note.gradients[i];
      MLBENCH_CHECK(static_cast<int64_t>(gradients[i].size()) == range.count, "the size of the gradient " + range.name);
      store(gradients[i], gradients_.data_ptr<float>() + range.offset);
      if (last_ && ready_) ready_(range.offset, range.count);
    }
    if (clock_ == nullptr) return;
    const TimePoint now = clock_->now();
    done_({note.label, note.pass, layer_began_, now});
    layer_began_ = clock_->now();
  }

  void store(std::span<const float> gradient, float* to) const {
    if (!accumulate_) {
      std::ranges::copy(gradient, to);
      return;
    }
    for (const float value : gradient) *to++ += value;
  }

  ConstBufferView labels_of(const BatchView& batch) const {
    const ConstBufferView& labels = batch.at(options_.model.loss.targets).values;
    MLBENCH_CHECK(labels.dtype == DType::kInt64 && labels.count == batch.samples,
                  fmt::format("{} labels of {} for {} samples", labels.count, name_of(labels.dtype), batch.samples));
    return labels;
  }

  // Rows of a matrix are gathered; a dense batch stays where it is.
  const float* features_of(const BatchView& batch) {
    const BatchTensor& tensor = batch.at("features");
    const int64_t volume = tensor.row_volume();
    MLBENCH_CHECK(
        tensor.values.dtype == DType::kFloat32 && tensor.shape.front() == batch.samples,
        fmt::format("{} samples of {} for {}", tensor.shape.front(), name_of(tensor.values.dtype), batch.samples));
    if (tensor.dense()) return static_cast<const float*>(tensor.values.data);
    const at::Tensor matrix =
        at::from_blob(const_cast<void*>(tensor.values.data), {tensor.values.count / volume, volume}, at::kFloat);
    const at::Tensor rows = at::from_blob(const_cast<int64_t*>(tensor.rows.data()), {batch.samples}, at::kLong);
    gathered_ = matrix.index_select(0, rows);
    return gathered_.const_data_ptr<float>();
  }

  FrameworkOptions options_;
  FlatLayout layout_;
  const SampleLoss& criterion_;
  at::Tensor parameters_, gradients_, buffers_;  // flat
  std::optional<Network> network_;
  bool pinned_ = false;
  int64_t step_ = 0, micro_batch_ = 0, samples_ = 0, weight_ = 0;
  at::Tensor gathered_;
  double sum_ = 0;  // of the last forward pass's losses
  std::vector<float> scores_;

  // ---- of the backward pass that runs
  bool accumulate_ = false, last_ = true;
  GradientReady ready_;
  const Clock* clock_ = nullptr;  // null: nobody asks for the times of layers
  Framework::LayerDone done_;
  TimePoint layer_began_{};
};

}  // namespace

std::vector<std::string_view> layers() { return chain_layers(); }

Availability available() {
  if (std::filesystem::exists(library_file())) return {true, ""};
  return {false, fmt::format("there is no {} (tools/setup.sh tensorflow)", library_file().string())};
}

std::unique_ptr<Framework> make(const FrameworkOptions& options) {
  check_options(options);
  return std::make_unique<TensorFlowFramework>(options);
}

}  // namespace mlbench::framework::tensorflow_framework
