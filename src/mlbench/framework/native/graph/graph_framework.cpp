#include "mlbench/framework/native/graph/graph_framework.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/graph/graph_network.h"
#include "mlbench/framework/native/graph/token_kernels.h"
#include "mlbench/framework/native/library.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/tensors/host_memory.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/threads.h"

namespace mlbench::framework::native_framework {

namespace {

at::ScalarType product_type_of(const std::string& precision) {
  return precision == "bf16" ? at::kBFloat16 : precision == "fp16" ? at::kHalf : at::kFloat;
}

class GraphFramework final : public Framework {
 public:
  explicit GraphFramework(const FrameworkOptions& options)
      : options_(options),
        layout_(models::lay_out(options.model)),
        product_type_(product_type_of(options.precision)),
        parameters_(at::zeros({layout_.parameter_elements}, at::kFloat)),
        gradients_(make_gradients(options, layout_.parameter_elements)),
        buffers_(at::zeros({layout_.buffer_elements}, at::kFloat)),
        table_(options.model, layout_, parameters_, gradients_, buffers_, gradient_buffer_) {
    if (product_type_ == at::kBFloat16) require_bfloat16();
    at::set_num_threads(options.threads);
    pinned_ = bind_threads(options.cores);
    network_ = make_network(table_, gradient_buffer_);
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
    GraphPass pass;
    pass.training = mode == Mode::kTrain;
    pass.seed = options_.seed;
    pass.rank = options_.rank;
    pass.step = step_;
    pass.micro_batch = micro_batch_;
    if (pass.training) ++micro_batch_;
    network_->forward(batch, pass);
    MLBENCH_CHECK(network_->sums().weight == batch.weight,
                  fmt::format("a batch of weight {} has {} targets", batch.weight, network_->sums().weight));
  }

  double loss() override { return network_->mean_loss() + penalties_.of(parameters_); }
  MetricSums metric_sums() override { return network_->sums(); }

  void backward(const BackwardOptions& options) override {
    gradient_buffer_.begin(penalties_.begin_gradients(parameters_, gradients_, options), options.last);
    network_->backward(options.scale);
  }

  void zero_gradients() override {
    gradients_.zero_();
    if (on_ready_) on_ready_(0, layout_.parameter_elements);
  }

  std::span<const float> outputs() override { refuse_outputs(options_.model); }

  std::vector<float> carried_state() override { return network_->carried_state(); }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    network_->set_carried_state(state, sequences);
  }

  std::unique_ptr<Decoder> make_decoder() override {
    if (options_.model.decoder_input.empty()) return Framework::make_decoder();
    // Layers keep values of their last pass, so each decoder has layers of its own, over the same parameters.
    const auto own = std::make_shared<DecoderNetwork>(*this);
    return make_sequence_decoder([own](const BatchView& sources) { return own->network->encode(sources); });
  }

  void decode(int64_t most, const DecoderWork& work) override {
    // Several calls are by one thread of the pool each, which makes its products alone. A single call has all threads.
    share_out(std::min<int64_t>(most, options_.threads), [&](int64_t) { work(*make_decoder()); });
  }

  void on_gradient_ready(GradientReady callback) override {
    on_ready_ = std::move(callback);
    gradient_buffer_.on_ready(on_ready_);
  }
  void on_layer(const Clock& clock, LayerDone done) override { network_->on_layer(clock, std::move(done)); }

  Json effective() const override {
    std::vector<std::string> kernels = network_->fused();
    kernels.push_back("products: " + product_kernels_name(product_type_));
    return {{"name", "native"},  {"device", "cpu"}, {"precision", options_.precision},
            {"pinned", pinned_}, {"fused", true},   {"layout", "rows without padding"},
            {"kernels", kernels}};
  }

  Json versions() const override { return onednn_versions(); }

 private:
  struct DecoderNetwork {
    explicit DecoderNetwork(const GraphFramework& of)
        : table(of.options_.model, of.layout_, of.parameters_, of.gradients_, of.buffers_, slots),
          network(of.make_network(table, slots)) {}
    GradientBuffer slots;  // no backward pass fills them
    ParameterTable table;
    std::unique_ptr<GraphNetwork> network;
  };

  std::unique_ptr<GraphNetwork> make_network(ParameterTable& table, GradientBuffer& slots) const {
    return std::make_unique<GraphNetwork>(GraphContext{options_.model,
                                                       [&table](const std::string& name) { return table.get(name); },
                                                       slots, options_.dropout, product_type_});
  }

  FrameworkOptions options_;
  const Penalties penalties_{options_.model};
  FlatLayout layout_;
  at::ScalarType product_type_;
  at::Tensor parameters_, gradients_, buffers_;
  GradientBuffer gradient_buffer_;
  ParameterTable table_;
  std::unique_ptr<GraphNetwork> network_;
  GradientReady on_ready_;
  bool pinned_ = false;
  int64_t step_ = 0, micro_batch_ = 0;
};

}  // namespace

std::unique_ptr<Framework> make_graph_framework(const FrameworkOptions& options) {
  keep_large_blocks();
  return std::make_unique<GraphFramework>(options);
}

}  // namespace mlbench::framework::native_framework
