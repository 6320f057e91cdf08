#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/framework/tensorflow/factory.h"
#include "mlbench/framework/tensorflow/graph_layers.h"
#include "mlbench/framework/tensorflow/losses.h"
#include "mlbench/framework/tensorflow/network.h"
#include "mlbench/framework/tensorflow/sequence_network.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/tensors/sequence_decoder.h"
#include "mlbench/framework/threads.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

void check_options(const FrameworkOptions& options) {
  if (options.precision != kPrecisions[0]) {
    throw UserError(fmt::format("framework 'tensorflow' has no precision '{}'{}", options.precision,
                                valid_text(options.precision, texts_of(kPrecisions))));
  }
  if (options.device != kDevices[0]) {
    throw UserError(fmt::format("framework 'tensorflow' has no device '{}'; valid: {}", options.device, kDevices[0]));
  }
}

class TensorFlowFramework final : public Framework, public LayerListener {
 public:
  explicit TensorFlowFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        parameters_(at::zeros({layout_.parameter_elements}, at::kFloat)),
        gradients_(make_gradients(options, layout_.parameter_elements)),
        buffers_(at::zeros({layout_.buffer_elements}, at::kFloat)),
        table_(options.model, layout_, parameters_, gradients_, buffers_, gradient_buffer_) {
    at::set_num_threads(options.threads);  // for what is computed beside TensorFlow, such as the optimizer
    // TensorFlow's threads are those that the network starts, and inherit the cores of their starter.
    const bool confined = !options.cores.empty() && bind_thread(std::span(options.cores));
    const NetworkContext context{options_,
                                 layout_,
                                 parameters_.data_ptr<float>(),
                                 buffers_.data_ptr<float>(),
                                 *this,
                                 [this](const std::string& name) { return table_.get(name).slot; }};
    if (options.model.is_graph()) {
      sequence_ = std::make_unique<SequenceNetwork>(context);
    } else {
      network_ = std::make_unique<Network>(context);
    }
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
    if (clock_ != nullptr) layer_began_ = clock_->now();
    const auto draw = [this](size_t layer, double p, std::span<float> mask) {
      dropout_mask(models::dropout_key(options_.seed, options_.rank, step_, layer, micro_batch_), p, mask);
    };
    if (sequence_) {
      sequence_->forward(batch, training, draw);
      sums_ = sequence_->sums();
      mean_loss_ = sequence_->mean_loss();
      MLBENCH_CHECK(sums_.weight == batch.weight,
                    fmt::format("a batch of weight {} has {} targets", batch.weight, sums_.weight));
    } else {
      network_->forward({features_of(batch), static_cast<const int64_t*>(labels_of(batch).data), batch.samples},
                        training, draw);
      const std::span<const float> losses = network_->losses();
      mean_loss_ = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(batch.samples);
      const double sum = mean_loss_ * static_cast<double>(batch.weight);
      sums_ = {sum, sum, batch.weight};
    }
    if (training) ++micro_batch_;
  }

  double loss() override { return mean_loss_ + penalties_.of(parameters_); }
  MetricSums metric_sums() override { return sums_; }

  void backward(const BackwardOptions& options) override {
    gradient_buffer_.begin(penalties_.begin_gradients(parameters_, gradients_, options), options.last);
    if (clock_ != nullptr) layer_began_ = clock_->now();
    if (sequence_) {
      sequence_->backward(options.scale);
    } else {
      network_->backward(options.scale);
    }
  }

  void zero_gradients() override {
    gradients_.zero_();
    if (on_ready_) on_ready_(0, layout_.parameter_elements);
  }

  std::span<const float> outputs() override {
    if (sequence_) refuse_outputs(options_.model);
    const std::span<const float> logits = network_->logits();
    scores_.assign(logits.begin(), logits.end());
    find_loss(options_.model).scores(scores_);
    return scores_;
  }

  std::unique_ptr<Decoder> make_decoder() override {
    if (options_.model.decoder_input.empty()) return Framework::make_decoder();
    return make_sequence_decoder([this](const BatchView& sources) { return sequence_->encode(sources); });
  }

  std::vector<float> carried_state() override { return sequence_ ? sequence_->carried_state() : std::vector<float>(); }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    if (sequence_) sequence_->set_carried_state(state, sequences);
  }

  void on_gradient_ready(GradientReady callback) override {
    on_ready_ = std::move(callback);
    gradient_buffer_.on_ready(on_ready_);
  }

  void on_layer(const Clock& clock, LayerDone done) override {
    // With more threads for operations, layers overlap.
    clock_ = done && options_.inter_op_threads == 1 ? &clock : nullptr;
    done_ = std::move(done);
  }

  Json effective() const override {
    return {{"name", "tensorflow"},
            {"device", "cpu"},
            {"pinned", pinned_},
            {"precision", options_.precision},
            {"layout", sequence_ ? "tokens" : "nhwc"},
            {"fused", false}};
  }
  Json versions() const override { return {{"tensorflow", library().TF_Version()}}; }

 private:
  void layer_done(size_t layer, const std::vector<std::span<const float>>& gradients) override {
    const LayerNote& note = (sequence_ ? sequence_->notes() : network_->notes())[layer];
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradient_buffer_.contribute(note.slots[i],
                                  [&](at::Tensor& to, bool add) { store_values(gradients[i], to, add); });
    }
    if (clock_ == nullptr) return;
    const TimePoint now = clock_->now();
    done_({note.label, note.pass, layer_began_, now});
    layer_began_ = clock_->now();
  }

  // By the calling thread alone, which may be one of TensorFlow's.
  static void store_values(std::span<const float> gradient, at::Tensor& slot, bool add) {
    const std::span<float> to = framework::values_of(slot);
    MLBENCH_CHECK(gradient.size() == to.size(),
                  fmt::format("a gradient of {} elements for {}", gradient.size(), to.size()));
    if (!add) {
      std::ranges::copy(gradient, to.begin());
    } else {
      for (size_t i = 0; i < to.size(); ++i) to[i] += gradient[i];
    }
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
  const Penalties penalties_{options_.model};
  FlatLayout layout_;
  at::Tensor parameters_, gradients_, buffers_;  // flat
  GradientBuffer gradient_buffer_;
  ParameterTable table_;
  std::unique_ptr<Network> network_;           // for a chain
  std::unique_ptr<SequenceNetwork> sequence_;  // for a graph
  bool pinned_ = false;
  int64_t step_ = 0, micro_batch_ = 0;
  at::Tensor gathered_;
  MetricSums sums_;  // of the last forward pass
  double mean_loss_ = 0;
  std::vector<float> scores_;
  GradientReady on_ready_;
  const Clock* clock_ = nullptr;  // null: nobody asks for the times of layers
  Framework::LayerDone done_;
  TimePoint layer_began_{};
};

}  // namespace

std::vector<std::string_view> layers() {
  std::vector<std::string_view> all = chain_layers();
  for (const std::string_view kind : graph_layers()) {
    if (std::ranges::find(all, kind) == all.end()) all.push_back(kind);
  }
  return all;
}

Availability available() {
  if (std::filesystem::exists(library_file())) return {true, ""};
  return {false, fmt::format("there is no {} (tools/setup.sh tensorflow)", library_file().string())};
}

std::unique_ptr<Framework> make(const FrameworkOptions& options) {
  check_options(options);
  return std::make_unique<TensorFlowFramework>(options);
}

}  // namespace mlbench::framework::tensorflow_framework
