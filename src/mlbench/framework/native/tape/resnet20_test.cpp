// ResNet-20 as in task 1a, with ReLU, at its full depth. Each layer is tested alone, from the input and the output
// gradient that a reference in float64 has there. So no sign that flips in an earlier layer can excuse an error. The
// rule per tensor: the norm of the error against float64 is at most twice LibTorch's own in float32, or 8 eps x norm.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/tape/build.h"
#include "mlbench/framework/native/tape/memory_plan.h"
#include "mlbench/framework/native/tape/team.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/spec/task.h"

namespace mlbench::framework::native_framework {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr int64_t kSamples = 5;
constexpr int kThreads = 2;
constexpr Chunk kChunks[] = {{0, 0, 2}, {0, 2, 1}, {1, 3, 2}};

using Tensors = std::vector<at::Tensor>;

// One layer: an operation, or the two operations of a batch norm, with all that these compute.
struct Layer {
  std::string name, type;
  std::vector<Operation*> operations;
  std::vector<Value*> inputs;
  Value* output = nullptr;
  Tensors parameters;  // float32
  bool relu = false;   // after what `compute` computes
};

class ResNet20 : public testing::TestWithParam<bool> {  // whether convolutions may take Winograd's order
 protected:
  ResNet20() {
    spec::TaskSpec task = spec::find_task("1a", "2021", "", {}).task;
    options_.model = models::describe_model(task);
    options_.layout = models::lay_out(options_.model);
    parameters_ = at::zeros({options_.layout.parameter_elements});
    gradients_ = at::zeros({options_.layout.parameter_elements});
    buffers_ = at::zeros({options_.layout.buffer_elements});
    models::initialise(options_.model, options_.layout, 42, values_of(parameters_), values_of(buffers_));
    // Parameters get random parts, so that biases and scales matter.
    RandomSequence random(3);
    for (float& value : values_of(parameters_)) value += 0.05F * static_cast<float>(random.normal());
    options_.parameters = parameters_.data_ptr<float>();
    options_.gradients = gradients_.data_ptr<float>();
    options_.buffers = buffers_.data_ptr<float>();
    options_.threads = kThreads;
    options_.convolution = GetParam() ? "auto" : "direct";
    tape_ = build_tape<float>(options_, instruction_sets().back());
    plan_.emplace(*tape_, kThreads);  // sets who writes which gradient; the test provides the memory
    pass_.training = true;
    pass_.samples = kSamples;
    pass_.threads = kThreads;
    for (Value& value : tape_->values) {
      for (Buffer* buffer : {&value.data, &value.gradient}) allocate(*buffer);
    }
    for (const auto& operation : tape_->operations) {
      for (Buffer* buffer : operation->state) allocate(*buffer);
      for (Buffer* buffer : operation->temporary) allocate(*buffer);
      operation->prepare({1, 2});
      if (operation->output != nullptr && operation->output != tape_->input) layers_.push_back(layer_of(*operation));
    }
  }

  void allocate(Buffer& buffer) {
    memory_.push_back(at::zeros({buffer.bytes_per_sample * kSamples / 4 + 16}));
    buffer.whole = reinterpret_cast<std::byte*>(memory_.back().data_ptr<float>());
  }

  at::Tensor parameter(const std::string& name, const at::Tensor& flat) const {
    const auto range = std::ranges::find(options_.layout.ranges, name, &FlatRange::name);
    return flat.narrow(0, range->offset, range->count).view(range->shape);
  }

  Layer layer_of(Operation& operation) {
    Layer layer{operation.name, "", {&operation}, operation.inputs, operation.output, {}, false};
    if (operation.after != nullptr) {
      const auto statistics = std::ranges::find(tape_->operations, operation.after, &std::unique_ptr<Operation>::get);
      layer.type = "batch_norm2d";
      layer.operations = {statistics->get(), &operation};
      layer.relu = std::ranges::count(operation.keeps, operation.output) > 0;
    } else {
      layer.type = operation.name == "fc" ? "linear" : operation.parameters.empty() ? "pool" : "conv2d";
    }
    if (layer.type == "pool") return layer;
    layer.parameters.push_back(parameter(layer.name + ".weight", parameters_));
    if (layer.type != "conv2d") layer.parameters.push_back(parameter(layer.name + ".bias", parameters_));
    return layer;
  }

  // Computes the layer in the simplest way, in the type of its arguments, without its ReLU.
  static at::Tensor compute(const Layer& layer, const Tensors& x, const Tensors& p) {
    if (layer.type == "conv2d") {
      const int64_t stride = layer.inputs[0]->shape.height / layer.output->shape.height;
      return at::conv2d(x[0], p[0], at::Tensor(), stride, p[0].size(2) / 2);
    }
    if (layer.type == "linear") return at::addmm(p[1], x[0], p[0].t());
    if (layer.type == "pool") return x[0].mean({2, 3});
    const at::Tensor y = at::batch_norm(x[0], p[0], p[1], {}, {}, true, 0.1, 1e-5, false);
    return x.size() > 1 ? y + x[1] : y;
  }

  // Converts plain values of the batch to the value's layout.
  static at::Tensor to_layout(const Value& value, const at::Tensor& plain) {
    if (value.layout != Layout::kBlocked) return plain.contiguous();
    const Shape& s = value.shape;
    return plain.view({kSamples, value.blocks, s.channels / value.blocks, s.height, s.width})
        .permute({0, 1, 3, 4, 2})
        .contiguous();
  }
  static void put(const Value& value, const Buffer& buffer, const at::Tensor& plain) {
    const at::Tensor values = to_layout(value, plain);
    std::memcpy(buffer.whole, values.const_data_ptr<float>(), static_cast<size_t>(values.numel()) * sizeof(float));
  }
  static at::Tensor get(const Value& value, const Buffer& buffer) {
    const Shape& s = value.shape;
    auto* values = reinterpret_cast<float*>(buffer.whole);
    if (value.layout == Layout::kRows) return at::from_blob(values, {kSamples, s.channels}).clone();
    return at::from_blob(values, {kSamples, value.blocks, s.height, s.width, s.channels / value.blocks})
        .permute({0, 1, 4, 2, 3})
        .reshape({kSamples, s.channels, s.height, s.width});
  }

  template <typename Work>
  void each_chunk(const Operation& operation, const Work& work) {
    if (!operation.by_batch) {
      for (const Chunk& chunk : kChunks) work(chunk);
    } else {
      for (int thread = 0; thread < kThreads; ++thread) work(Chunk{thread, 0, kSamples});
    }
  }

  void run_forward(const Layer& layer) {
    for (int thread = 0; thread < kThreads; ++thread) {
      for (Operation* operation : layer.operations) operation->pack(thread, pass_);
    }
    for (Operation* operation : layer.operations) {
      each_chunk(*operation, [&](const Chunk& chunk) { operation->forward(chunk, pass_); });
      for (int thread = 0; thread < kThreads; ++thread) operation->finish_forward(thread, pass_);
    }
  }
  void run_backward(const Layer& layer) {
    for (auto operation = layer.operations.rbegin(); operation != layer.operations.rend(); ++operation) {
      each_chunk(**operation, [&](const Chunk& chunk) { (*operation)->backward(chunk, pass_); });
      for (int thread = 0; thread < kThreads; ++thread) (*operation)->finish_backward(thread, pass_);
    }
  }

  // Computes the values of all layers, and the gradients of the loss with respect to them, in float64.
  void compute_reference() {
    Samples samples(options_.model);
    features_ = samples.features;
    reference_[tape_->input] = features_.to(at::kDouble).requires_grad_(true);
    for (const Layer& layer : layers_) {
      Tensors x, p;
      for (const Value* input : layer.inputs) x.push_back(reference_.at(input));
      for (const at::Tensor& value : layer.parameters) p.push_back(value.to(at::kDouble));
      const at::Tensor y = compute(layer, x, p);
      reference_[layer.output] = layer.relu ? at::relu(y) : y;
    }
    Tensors values;
    for (const auto& [value, tensor] : reference_) values.push_back(tensor);
    const at::Tensor loss = at::cross_entropy_loss(reference_.at(tape_->result), samples.labels);
    const Tensors found = torch::autograd::grad({loss}, values);
    size_t i = 0;
    for (const auto& [value, tensor] : reference_) gradient_[value] = found[i++];
    for (auto& [value, tensor] : reference_) tensor = tensor.detach();
    // A batch norm with ReLU leaves the part of its gradient that ReLU lets through.
    for (const Layer& layer : layers_) {
      left_[layer.output] =
          layer.relu ? gradient_[layer.output] * (reference_[layer.output] > 0) : gradient_[layer.output];
    }
  }

  struct Samples {
    explicit Samples(const models::ModelDescription& model) {
      RandomSequence random(5);
      features = at::zeros({kSamples, model.input_shape[0], model.input_shape[1], model.input_shape[2]});
      for (float& value : values_of(features)) value = static_cast<float>(random.normal());
      labels = at::arange(kSamples, at::kLong);
    }
    at::Tensor features, labels;
  };

  static double norm(const at::Tensor& values) { return values.norm().item<double>(); }

  void compare(const std::string& what, const at::Tensor& ours, const at::Tensor& peer, const at::Tensor& exact) {
    const at::Tensor mine = ours.reshape(exact.sizes()).to(at::kDouble);
    ++compared_;
    EXPECT_LE(norm(mine - exact), std::max(2 * norm(peer.to(at::kDouble) - exact), 8 * kEpsilon * norm(exact)))
        << what << ": LibTorch's error is " << norm(peer.to(at::kDouble) - exact) << ", norm " << norm(exact);
  }
  // Tensors under 64 elements are pooled by layer type.
  void compare_or_pool(const Layer& layer, const std::string& what, const at::Tensor& ours, const at::Tensor& peer,
                       const at::Tensor& exact) {
    if (exact.numel() >= 64) return compare(layer.name + what, ours, peer, exact);
    Pool& pool = pools_[layer.type];
    pool.ours.push_back(ours.flatten().clone());  // before the next layer writes there
    pool.peer.push_back(peer.flatten());
    pool.exact.push_back(exact.flatten());
  }

  struct Pool {
    Tensors ours, peer, exact;
  };
  NetworkOptions options_;
  at::Tensor parameters_, gradients_, buffers_, features_;
  std::unique_ptr<Tape> tape_;
  std::optional<MemoryPlan> plan_;
  std::vector<at::Tensor> memory_;
  std::vector<Layer> layers_;
  Pass pass_;
  std::map<const Value*, at::Tensor> reference_, gradient_, left_;
  std::map<std::string, Pool> pools_;
  int compared_ = 0;
};

TEST_P(ResNet20, EachLayerIsAsExactAsLibTorchFromTheSameInputs) {
  const SingleThreaded single;
  compute_reference();
  const auto by_winograd = std::ranges::count_if(tape_->operations, [](const std::unique_ptr<Operation>& operation) {
    return operation->explanation.find("winograd") != std::string::npos;
  });
  ASSERT_EQ(by_winograd, GetParam() ? 16 : 0) << "all but the first convolution and those of stride 2";
  ASSERT_EQ(layers_.size(), 21U + 21U + 2U) << "convolutions, norms, pool and linear";
  for (const Layer& layer : layers_) {
    SCOPED_TRACE(layer.name);
    Tensors single_x, x, p;
    for (const Value* input : layer.inputs) {
      single_x.push_back(reference_.at(input).to(at::kFloat));
      x.push_back(single_x.back().to(at::kDouble).requires_grad_(true));
      put(*input, input->data, single_x.back());
      single_x.back().requires_grad_(true);
    }
    Tensors single_p;
    for (const at::Tensor& value : layer.parameters) {
      single_p.push_back(value.clone().requires_grad_(true));
      p.push_back(value.to(at::kDouble).requires_grad_(true));
    }
    const at::Tensor exact = compute(layer, x, p), peer = compute(layer, single_x, single_p);
    const auto act = [&](const at::Tensor& y) { return layer.relu ? at::relu(y.detach()) : y.detach(); };
    run_forward(layer);
    compare(layer.name + " forward", get(*layer.output, layer.output->data), act(peer), act(exact));

    // Backward, the output's gradient is the sum of what operations wrote and the gradient of the sum of which the
    // value is a term.
    Value& y = *layer.output;
    put(y, y.data, act(exact).to(at::kFloat));
    at::Tensor upstream = at::zeros_like(exact), rest = gradient_.at(&y);
    if (y.alias != nullptr) {
      const at::Tensor part = left_.at(y.alias).to(at::kFloat);
      put(*y.alias, y.alias->final_gradient(), part);
      upstream = upstream + part.to(at::kDouble);
      rest = rest - left_.at(y.alias);
    }
    if (y.writers > 0) {
      put(y, y.gradient, rest.to(at::kFloat));
      upstream = upstream + rest.to(at::kFloat).to(at::kDouble);
    } else {
      ASSERT_LE(norm(rest), 1e-12 * norm(gradient_.at(&y))) << "the alias has all of it";
    }
    if (layer.relu) upstream = upstream * (exact > 0);
    // Values that others have written already stay, and values that nobody has written must not matter.
    std::map<const Value*, at::Tensor> before;
    for (const Operation* operation : layer.operations) {
      for (size_t i = 0; i < operation->writes_gradient_of.size(); ++i) {
        const Value& input = *operation->writes_gradient_of[i];
        before[&input] = at::full_like(reference_.at(&input), operation->adds[i] ? 1e-3 : 1e9).to(at::kFloat);
        put(input, input.gradient, before[&input]);
        if (!operation->adds[i]) before[&input].zero_();
      }
    }
    gradients_.fill_(1e9);
    run_backward(layer);

    Tensors wanted = x, single_wanted = single_x;
    wanted.insert(wanted.end(), p.begin(), p.end());
    single_wanted.insert(single_wanted.end(), single_p.begin(), single_p.end());
    const Tensors dx = torch::autograd::grad({exact}, wanted, {upstream});
    const Tensors single_dx = torch::autograd::grad({peer}, single_wanted, {upstream.to(at::kFloat)});
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const Value& input = *layer.inputs[i];
      if (!before.contains(&input)) continue;
      const at::Tensor& start = before.at(&input);
      compare(layer.name + " gradient of input " + std::to_string(i), get(input, input.gradient), single_dx[i] + start,
              dx[i] + start.to(at::kDouble));
    }
    if (layer.relu) compare(layer.name + " what ReLU lets through", get(y, y.gradient), upstream, upstream);
    const char* names[] = {".weight", ".bias"};
    for (size_t i = 0; i < p.size(); ++i) {
      compare_or_pool(layer, names[i], parameter(layer.name + names[i], gradients_), single_dx[x.size() + i],
                      dx[x.size() + i]);
    }
  }
  for (const auto& [type, pool] : pools_) {
    compare("small tensors of " + type, at::cat(pool.ours), at::cat(pool.peer), at::cat(pool.exact));
  }
  // The tensors compared: outputs, gradients after ReLU, input gradients (the stem has none, those of blocks are handed
  // on), and weights.
  EXPECT_GE(compared_, 44 + 19 + 42 + 21);
}

TEST_P(ResNet20, ConvolutionsAndNormsHaveFloors) {
  const SingleThreaded single;
  int known = 0;
  for (const auto& operation : tape_->operations) {
    const auto [forward_s, backward_s] = operation->measure_floor();
    const bool has_floor =
        operation->name.find("conv") != std::string::npos || operation->name.find("bn") != std::string::npos;
    EXPECT_EQ(forward_s > 0, has_floor) << operation->name;
    EXPECT_EQ(backward_s > 0, has_floor) << operation->name;
    known += has_floor ? 1 : 0;
  }
  EXPECT_EQ(known, 21 + 2 * 21) << "each norm is two operations";
}

INSTANTIATE_TEST_SUITE_P(Orders, ResNet20, testing::Bool(),
                         [](const auto& info) { return info.param ? "Winograd" : "Direct"; });

}  // namespace
}  // namespace mlbench::framework::native_framework
