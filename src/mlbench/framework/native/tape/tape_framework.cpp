#include "mlbench/framework/native/tape/tape_framework.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/text.h"
#include "mlbench/framework/native/library.h"
#include "mlbench/framework/native/tape/linear_rows.h"
#include "mlbench/framework/native/tape/network.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/tensors/sparse_linear.h"
#include "mlbench/framework/threads.h"

namespace mlbench::framework::native_framework {

namespace {

struct Loss {
  const char* name;
  // The loss of one sample. `gradient` [outputs] receives the gradient of this loss.
  double (*value)(std::span<const float> logits, int64_t label, float* gradient);
  // Turns logits into what metrics see, in place.
  void (*scores)(std::span<float> logits);
};

double cross_entropy(std::span<const float> logits, int64_t label, float* gradient) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double probability = std::exp(logits[i] - largest) / sum;
    gradient[i] = static_cast<float>(probability - (static_cast<int64_t>(i) == label ? 1 : 0));
  }
  return std::log(sum) + largest - logits[static_cast<size_t>(label)];
}

// Computed on the logit, the loss neither overflows nor needs log(0).
double binary_cross_entropy(std::span<const float> logits, int64_t label, float* gradient) {
  const double z = logits[0], y = label != 0 ? 1 : 0, decay = std::exp(-std::abs(z));
  gradient[0] = static_cast<float>((z >= 0 ? 1 / (1 + decay) : decay / (1 + decay)) - y);
  return std::max(z, 0.0) - z * y + std::log1p(decay);
}

double squared_error(std::span<const float> outputs, int64_t label, float* gradient) {
  const double difference = outputs[0] - static_cast<double>(label);
  gradient[0] = static_cast<float>(2 * difference);
  return difference * difference;
}

constexpr Loss kLosses[] = {
    {"cross_entropy", cross_entropy, [](std::span<float>) {}},
    {"binary_cross_entropy", binary_cross_entropy,
     [](std::span<float> logits) {
       for (float& z : logits) z = 1 / (1 + std::exp(-z));
     }},
    {"mean_squared_error", squared_error, [](std::span<float>) {}},
};

const Loss& find_loss(const models::ModelDescription& model) {
  const std::string& name = model.loss.kind;
  for (const Loss& row : kLosses) {
    if (row.name == name) return row;
  }
  throw UserError(fmt::format("framework 'native' has no loss '{}'{}", name, valid_text(name, names_of(kLosses))));
}

// A product with one vector for which LinearRows reads the batch once.
bool is_logistic_regression(const models::ModelDescription& model) {
  return model.loss.kind == "binary_cross_entropy" && is_one_product(model);
}

// Says in which order convolutions add, and why: the last of the orders is winograd, where at least one layer has it.
void tell_convolutions(const Network& network, Json& effective) {
  for (const auto& [order, reasons] : network.convolutions()) {
    effective["convolution"] = order;
    for (const auto& [why, layers] : reasons) {
      effective["convolution_why"].push_back(fmt::format("{} in {}: {}", order, counted(layers, "layer"), why));
    }
  }
}

class TapeFramework final : public Framework {
 public:
  explicit TapeFramework(const FrameworkOptions& options)
      : options_(options), layout_(models::lay_out(options.model)), criterion_(find_loss(options.model)) {
    at::set_num_threads(options.threads);  // for the optimizer, which uses the same OpenMP team
    pinned_ = bind_threads(options.cores);
    parameters_ = at::zeros({layout_.parameter_elements}, at::kFloat);
    gradients_ = make_gradients(options, layout_.parameter_elements);
    buffers_ = at::zeros({layout_.buffer_elements}, at::kFloat);
    if (options.sparse_rows) {
      check_sparse_rows("native", options);
      sparse_.emplace(options.model.layers[0].options.at("in").get<int64_t>(), options.threads);
      return;
    }
    if (is_logistic_regression(options.model)) {
      if (options.precision != "float32") {
        throw UserError("framework 'native' reads the rows of a logistic regression in float32; valid: float32");
      }
      set_ = instruction_sets().back();
      rows_.emplace(options.model.layers[0].options.at("in").get<int64_t>(), options.threads, row_kernels(set_));
      return;
    }
    NetworkOptions network;
    network.model = options.model;
    network.layout = layout_;
    network.parameters = parameters_.data_ptr<float>();
    network.gradients = gradients_.data_ptr<float>();
    network.buffers = buffers_.data_ptr<float>();
    network.threads = options.threads;
    network.seed = options.seed;
    network.rank = options.rank;
    network.dropout = options.dropout;
    network.frozen_batch_norm = options.frozen_batch_norm;
    network.bfloat16 = options.precision == "bf16";
    network.convolution = options.convolution;
    network_ = std::make_unique<Network>(network);
  }

  const FlatLayout& layout() const override { return layout_; }
  BufferView parameters() override { return flat_view(parameters_); }
  BufferView gradients() override { return flat_view(gradients_); }
  BufferView buffers() override { return flat_view(buffers_); }

  void initialise() override {
    models::initialise(options_.model, layout_, options_.seed, values_of(parameters_), values_of(buffers_));
  }

  void begin_step(int64_t step) override {
    step_ = step;
    micro_batch_ = 0;
  }

  void forward(const BatchView& batch, Mode mode) override {
    const bool training = mode == Mode::kTrain;
    weight_ = batch.weight;
    const auto* labels = static_cast<const int64_t*>(batch.at(options_.model.loss.targets).values.data);
    labels_.assign(labels, labels + batch.samples);
    if (rows_) {
      rows_->forward(batch, parameters_.const_data_ptr<float>(), training);
      mean_loss_ = rows_->mean_loss();
      logits_ = rows_->logits();
      return;
    }
    if (sparse_) {
      sparse_->forward(batch, parameters_.const_data_ptr<float>());
      logits_ = sparse_->outputs();
    } else {
      network_->forward(batch, training, step_, micro_batch_);
      if (training) ++micro_batch_;
      logits_ = network_->outputs();
    }
    const auto outputs = static_cast<size_t>(options_.model.outputs);
    output_gradient_.resize(logits_.size());
    double sum = 0;
    for (size_t i = 0; i < labels_.size(); ++i) {
      sum += criterion_.value(logits_.subspan(i * outputs, outputs), labels_[i], output_gradient_.data() + i * outputs);
    }
    mean_loss_ = sum / static_cast<double>(batch.samples);
  }

  double loss() override { return mean_loss_ + penalties_.of(parameters_); }

  MetricSums metric_sums() override {
    const double sum = mean_loss_ * static_cast<double>(weight_);
    return {sum, sum, weight_};
  }

  void backward(const BackwardOptions& options) override {
    const double loss_scale = options.scale;
    const GradientReady ready = options.last ? ready_ : GradientReady();
    const bool accumulate = penalties_.begin_gradients(parameters_, gradients_, options);
    if (rows_) {
      rows_->gradient(static_cast<float>(loss_scale), accumulate, gradients_.data_ptr<float>());
      if (ready) ready(layout_.ranges[0].offset, layout_.ranges[0].count);
      return;
    }
    const auto scale = static_cast<float>(loss_scale / static_cast<double>(labels_.size()));
    scaled_.resize(output_gradient_.size());
    std::ranges::transform(output_gradient_, scaled_.begin(), [scale](float value) { return value * scale; });
    if (network_) return network_->backward(scaled_, accumulate, ready);
    sparse_->gradient(scaled_, accumulate, gradients_.data_ptr<float>());
    if (ready) ready(layout_.ranges[0].offset, layout_.ranges[0].count);
  }

  void zero_gradients() override {
    gradients_.zero_();
    if (ready_) ready_(0, layout_.parameter_elements);
  }

  std::span<const float> outputs() override {
    scores_.assign(logits_.begin(), logits_.end());
    criterion_.scores(scores_);
    return scores_;
  }

  void on_gradient_ready(GradientReady callback) override { ready_ = std::move(callback); }

  void on_layer(const Clock& clock, LayerDone done) override {
    if (network_) network_->on_layer(clock, std::move(done));
  }

  void profile(bool on) override {
    if (network_) network_->profile(on);
  }
  std::vector<OperationCost> costs() override { return network_ ? network_->costs() : std::vector<OperationCost>(); }

  Json effective() const override {
    Json effective = {
        {"name", "native"}, {"device", "cpu"}, {"precision", options_.precision}, {"pinned", pinned_}, {"fused", true}};
    if (rows_) {
      effective["layout"] = "rows";
      effective["kernels"] = {"gather+linear+loss+gradient"};
      effective["instruction_set"] = name_of(set_);
    } else if (sparse_) {
      effective["layout"] = "sparse rows";
      effective["kernels"] = {"gather+sparse linear", "sparse gradient"};
      effective["instruction_set"] = name_of(set_);
    } else {
      effective["layout"] = network_->layout();
      effective["kernels"] = network_->fused();
      effective["instruction_set"] = network_->instruction_set();
      tell_convolutions(*network_, effective);
    }
    return effective;
  }

  Json versions() const override { return onednn_versions(); }

 private:
  FrameworkOptions options_;
  const Penalties penalties_{options_.model};
  FlatLayout layout_;
  const Loss& criterion_;
  bool pinned_ = false;
  at::Tensor parameters_, gradients_, buffers_;
  std::unique_ptr<Network> network_;
  // Instead of the network, at most one of these:
  std::optional<LinearRows> rows_;
  std::optional<SparseLinear> sparse_;
  InstructionSet set_ = InstructionSet::kPortable;
  GradientReady ready_;
  int64_t step_ = 0, micro_batch_ = 0, weight_ = 0;
  std::vector<int64_t> labels_;
  std::span<const float> logits_;
  std::vector<float> output_gradient_, scaled_, scores_;
  double mean_loss_ = 0;
};

}  // namespace

std::unique_ptr<Framework> make_tape_framework(const FrameworkOptions& options) {
  return std::make_unique<TapeFramework>(options);
}

}  // namespace mlbench::framework::native_framework
