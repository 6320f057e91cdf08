#include "mlbench/framework/torch/torch_framework.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <memory>
#include <mutex>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/framework/host_values.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/tensors/host_memory.h"
#include "mlbench/framework/tensors/sequence_decoder.h"
#include "mlbench/framework/tensors/sparse_linear.h"
#include "mlbench/framework/tensors/token_inputs.h"
#include "mlbench/framework/threads.h"
#include "mlbench/framework/torch/losses.h"
#include "mlbench/framework/torch/operations.h"
#include "mlbench/framework/torch/placement.h"
#include "mlbench/framework/torch/sequence_model.h"

namespace mlbench::framework::torch_framework {

namespace {

// The type to which convolutions and linear layers round factors.
at::ScalarType product_type_of(const std::string& precision) {
  if (precision == "float32" || precision == "tf32") return at::kFloat;
  if (precision == "bf16") return at::kBFloat16;
  if (precision == "fp16") return at::kHalf;
  throw UserError(fmt::format("framework 'torch' has no precision '{}'{}", precision,
                              valid_text(precision, texts_of(spec::kPrecisions))));
}

// If several threads call a function of MKL's vector library for the first time at once, one of them may get another
// variant of it, whose errors are about thirty times as large: 10 of 300 processes had other bits in their first step
// (LibTorch 2.15, tanh). After a first call by one thread, none of 300 had.
void call_vector_functions_once() {
  const at::Tensor one = at::ones({16});
  at::tanh(one);
  at::exp(one);
  at::log(one);
}

void use_threads(int threads, int inter_op_threads) {
  at::set_num_threads(threads);
  static std::once_flag once;
  std::call_once(once, [&] {
    at::set_num_interop_threads(inter_op_threads);
    call_vector_functions_once();
  });
}

class TorchFramework final : public Framework {
 public:
  explicit TorchFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        criterion_(find_loss(options.model)),
        placement_(options.device, options.local_rank, options.precision),
        parameters_(placement_.make_flat(layout_.parameter_elements)),
        gradients_(placement_.separate() ? placement_.make_flat(layout_.parameter_elements)
                                         : make_gradients(options, layout_.parameter_elements)),
        buffers_(placement_.make_flat(layout_.buffer_elements)),
        table_(options.model, layout_, parameters_, gradients_, buffers_, gradient_buffer_) {
    const at::ScalarType product_type = product_type_of(options.precision);
    if (options.sparse_rows) check_sparse_rows("torch", options);
    use_threads(options.threads, options.inter_op_threads);
    pinned_ = bind_threads(options.cores);
    const BuildContext context{options_.model,      [this](const std::string& name) { return table_.get(name); },
                               gradient_buffer_,    layer_times_,
                               options_.dropout,    options_.frozen_batch_norm,
                               product_type,        !placement_.separate(),
                               options.sparse_rows, options.threads};
    if (options_.model.is_graph()) {
      sequence_ = std::make_unique<SequenceModel>(context);
    } else {
      network_ = build(context);
    }
  }

  const FlatLayout& layout() const override { return layout_; }
  BufferView parameters() override { return flat_view(parameters_, placement_.memory()); }
  BufferView gradients() override { return flat_view(gradients_, placement_.memory()); }
  BufferView buffers() override { return flat_view(buffers_, placement_.memory()); }
  SeparateMemory* separate_memory() override { return placement_.memory(); }
  void synchronize() override { placement_.synchronize(); }

  void initialise() override {
    HostValues parameters(*this, this->parameters()), buffers(*this, this->buffers());
    models::initialise(options_.model, layout_, options_.seed, parameters.values(), buffers.values());
    parameters.store();
    buffers.store();
  }

  void begin_step(int64_t step) override {
    step_ = step;
    micro_batch_ = 0;
  }

  void forward(const BatchView& batch, Mode mode) override {
    loss_ = at::Tensor();
    weight_ = batch.weight;
    const bool training = mode == Mode::kTrain;
    const at::AutoGradMode differentiate(training);
    Pass pass{training, options_.seed, options_.rank, step_, micro_batch_, {}};
    if (training) ++micro_batch_;
    if (sequence_) {
      sequence_->forward(tokens_of(batch), targets_of(batch), pass, batch.continues);
      MLBENCH_CHECK(sequence_->sums().weight == batch.weight,
                    fmt::format("a batch of weight {} has {} targets", batch.weight, sequence_->sums().weight));
      return;
    }
    labels_ = placement_.bring(tensor_of(batch.at(options_.model.loss.targets), {batch.samples}, at::kLong));
    if (options_.sparse_rows) {
      pass.sparse_rows = &batch;
    } else if (network_.reads_rows) {
      pass.rows = rows_of(batch.at("features"), batch.samples);
    }
    outputs_ = network_.forward(
        network_.reads_rows ? at::Tensor(at::empty({0})) : features_of(batch.at("features"), batch.samples), pass);
  }

  double loss() override {
    compute_loss();
    return (sequence_ ? sequence_->mean_loss() : loss_.item<double>()) + penalty_;
  }

  MetricSums metric_sums() override {
    if (sequence_) return sequence_->sums();
    compute_loss();
    const double sum = loss_.item<double>() * static_cast<double>(weight_);
    return {sum, sum, weight_};
  }

  void backward(const BackwardOptions& options) override {
    compute_loss();
    const bool accumulate = penalties_.begin_gradients(parameters_, gradients_, options);
    gradient_buffer_.begin(accumulate, options.last);
    if (sequence_) {
      sequence_->backward(options.scale);
    } else {
      loss_.backward(at::scalar_tensor(options.scale, loss_.options()));
      loss_ = loss_.detach();
      outputs_ = outputs_.detach();
    }
    layer_times_.backward_ends();
    // Waiting here makes the pass's time include the device's work.
    if (options.last) synchronize();
  }

  void zero_gradients() override {
    gradients_.zero_();
    if (on_ready_) on_ready_(0, layout_.parameter_elements);
  }

  std::span<const float> outputs() override {
    if (sequence_) refuse_outputs(options_.model);
    scores_ = criterion_.scores(outputs_.detach()).to(at::kCPU).contiguous();
    return {scores_.const_data_ptr<float>(), static_cast<size_t>(scores_.numel())};
  }

  std::unique_ptr<Decoder> make_decoder() override {
    if (options_.model.decoder_input.empty()) return Framework::make_decoder();
    return make_sequence_decoder([this](const BatchView& sources) {
      const auto encoded = std::make_shared<SequenceModel::Values>(sequence_->encode(tokens_of(sources)));
      return EncodedSources{placement_.device(), sequence_->steps(), [this, encoded](const auto& tokens, auto& pass) {
                              at::Tensor log_probabilities = sequence_->decode(tokens, *encoded, pass);
                              encoded->clear();  // the layers' states now have all that they need of the values
                              return log_probabilities;
                            }};
    });
  }

  std::vector<float> carried_state() override { return sequence_ ? sequence_->carried_state() : std::vector<float>(); }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    if (sequence_) sequence_->set_carried_state(state, sequences, placement_.device());
  }

  void on_gradient_ready(GradientReady callback) override {
    on_ready_ = std::move(callback);
    gradient_buffer_.on_ready(on_ready_);
  }

  void on_layer(const Clock& clock, LayerDone done) override { layer_times_.observe(clock, std::move(done)); }

  Json effective() const override {
    return {{"name", "torch"},
            {"device", placement_.name()},
            {"pinned", pinned_},
            {"page_locked", placement_.device().is_cuda()},
            {"precision", options_.precision},
            {"layout", sequence_              ? "rows without padding"
                       : options_.sparse_rows ? "sparse rows"
                                              : "nhwc"},
            {"fused", false},
            {"kernels", sequence_ ? SequenceModel::kernels(product_type_of(options_.precision), placement_.device())
                                  : network_.fused}};
  }

  Json versions() const override {
    Json versions = {{"libtorch", TORCH_VERSION}};
    if (placement_.device().is_cuda()) {
      const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
      versions["cudart"] = fmt::format("{}.{}", cuda.versionCUDART() / 1000, cuda.versionCUDART() % 1000 / 10);
      versions["cudnn"] = std::to_string(cuda.versionCuDNN());
    }
    return versions;
  }

 private:
  void compute_loss() {
    if (!sequence_ && loss_.defined()) return;
    if (!sequence_) loss_ = criterion_.mean(outputs_, labels_);
    penalty_ = penalties_.of(parameters_);
  }

  static RowSelection rows_of(const BatchTensor& features, int64_t samples) {
    MLBENCH_CHECK(
        features.values.dtype == DType::kFloat32 &&
            (features.dense() || static_cast<int64_t>(features.rows.size()) == samples),
        fmt::format("{} samples of {}, {} rows", samples, name_of(features.values.dtype), features.rows.size()));
    return {static_cast<const float*>(features.values.data), features.dense() ? nullptr : features.rows.data(), samples,
            features.row_volume()};
  }

  static at::Tensor tensor_of(const BatchTensor& tensor, at::IntArrayRef shape, at::ScalarType type) {
    const ConstBufferView& view = tensor.values;
    MLBENCH_CHECK(type == (view.dtype == DType::kInt64 ? at::kLong : at::kFloat) &&
                      (view.dtype == DType::kInt64 || view.dtype == DType::kFloat32) &&
                      view.count == c10::multiply_integers(shape),
                  fmt::format("tensor '{}' of {} elements of {}", tensor.name, view.count, name_of(view.dtype)));
    // from_blob takes a writable pointer; nothing here writes to its input.
    return at::from_blob(const_cast<void*>(view.data), shape, type);
  }

  at::Tensor features_of(const BatchTensor& tensor, int64_t samples) {
    const int64_t volume = tensor.row_volume();
    at::Tensor features = tensor_of(tensor, {tensor.values.count / volume, volume}, at::kFloat);
    if (!tensor.dense()) {
      const auto count = static_cast<int64_t>(tensor.rows.size());
      const at::Tensor rows = at::from_blob(const_cast<int64_t*>(tensor.rows.data()), {count}, at::kLong);
      features = features.index_select(0, rows);
    }
    MLBENCH_CHECK(features.size(0) == samples, fmt::format("{} samples, {} rows", samples, features.size(0)));
    const std::vector<int64_t>& shape = tensor.shape;
    features = placement_.bring(features.view(shape));
    if (shape.size() != 4) return features;
    // In the layout channels last, LibTorch's convolutions run about twice as fast. With one channel both layouts are
    // the same memory, and only strides tell LibTorch which one is meant.
    if (shape[1] == 1) return features.as_strided(shape, {shape[2] * shape[3], 1, shape[3], 1});
    return features.contiguous(at::MemoryFormat::ChannelsLast);
  }

  // Brings the inputs of the graph to the device.
  SequenceModel::Values tokens_of(const BatchView& batch) {
    SequenceModel::Values values = token_inputs(options_.model, batch, placement_.device());
    for (auto& [name, value] : values) value.data = placement_.bring(value.data);
    return values;
  }

  at::Tensor targets_of(const BatchView& batch) {
    const at::Tensor host = integers_of(batch.at(options_.model.loss.targets));
    if (host.numel() > 0) {
      const auto [least, most] = at::aminmax(host);
      MLBENCH_CHECK(least.item<int64_t>() >= 0 && most.item<int64_t>() < options_.model.outputs,
                    fmt::format("targets from {} to {}, the vocabulary {}", least.item<int64_t>(), most.item<int64_t>(),
                                options_.model.outputs));
    }
    return placement_.bring(host);
  }

  FrameworkOptions options_;
  const Penalties penalties_{options_.model};
  FlatLayout layout_;
  const SampleLoss& criterion_;
  Placement placement_;
  at::Tensor parameters_, gradients_, buffers_;  // flat
  GradientBuffer gradient_buffer_;
  ParameterTable table_;
  LayerTimes layer_times_;
  GradientReady on_ready_;
  Network network_;                          // for a chain
  std::unique_ptr<SequenceModel> sequence_;  // for a graph
  int64_t step_ = 0, micro_batch_ = 0, weight_ = 0;
  bool pinned_ = false;
  at::Tensor labels_, outputs_, loss_, scores_;
  double penalty_ = 0;
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Framework> make(const FrameworkOptions& options) {
  keep_large_blocks();
  return std::make_unique<TorchFramework>(options);
}

}  // namespace mlbench::framework::torch_framework
