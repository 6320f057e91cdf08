#include "mlbench/framework/onednn/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <type_traits>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/onednn/convolution.h"
#include "mlbench/framework/onednn/fusion.h"
#include "mlbench/framework/onednn/operations.h"

namespace mlbench::framework::onednn_framework {

namespace {

// What a chunk's largest value takes: some of these fit into a core's second-level cache together.
constexpr int64_t kChunkBytes = 256 * 1024;
constexpr int64_t kLine = 64;

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Zeroed, in large pages where the system gives them: a step walks through all of it.
class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t bytes) {
    constexpr int64_t kHugePage = 2 << 20;
    const auto size = static_cast<size_t>(rounded_up(std::max<int64_t>(bytes, 1), kHugePage));
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, size)));
    if (!bytes_) throw std::bad_alloc();
    madvise(bytes_.get(), size, MADV_HUGEPAGE);  // advice: an error changes nothing
    std::fill_n(bytes_.get(), size, std::byte{0});
  }
  std::byte* get() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

// oneDNN and OpenMP regions inside it take one thread while this lives; each of ours calls oneDNN for itself.
class SingleThreaded {
 public:
  SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(before_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

// The first exception of a team of threads, which may not leave an OpenMP region.
class FirstError {
 public:
  template <typename Body>
  void guard(const Body& body) {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

struct Segment {
  std::vector<Operation*> operations;
  bool by_batch = false;
  int64_t chunk = 1;          // samples
  int64_t scratch_bytes = 0;  // per sample
};

// A buffer of the whole batch, and the segments between which it is in use.
struct Stored {
  Buffer* buffer;
  size_t first, last;
  int64_t offset = 0;  // bytes per sample of the batch
};

template <typename T>
class TapeNetwork final : public Network {
 public:
  explicit TapeNetwork(const NetworkOptions& options);

  void forward(const BatchView& batch, bool training, int64_t step) override;
  std::span<const float> outputs() const override;
  void backward(std::span<const float> output_gradient, bool accumulate, const Ready& ready) override;
  const std::vector<std::string>& fused() const override { return fused_; }
  std::string layout() const override { return fmt::format("nChw{}c", kernels_.lanes); }
  const char* instruction_set() const override { return name_of(set_); }
  void profile(bool on) override;
  std::vector<OperationCost> costs() override;

 private:
  // Building.
  Value* new_value(const Shape& shape, Layout layout);
  Operation* add(std::unique_ptr<Operation> operation, const std::string& name);
  Parameter parameter(const std::string& name) const;
  float* running(const std::string& name) const;
  const FlatRange& range_of(const std::string& name) const;
  Value* build_input();
  Value* build_chain(std::span<const models::LayerSpec> chain, Value* x);
  Value* build_layer(const FusedLayer& fused, Value* x);
  Value* build_conv2d(const FusedLayer& fused, Value* x);
  Value* build_linear(const FusedLayer& fused, Value* x);
  Value* build_lstm(const FusedLayer& fused, Value* x);
  Value* build_attention(const FusedLayer& fused, Value* x);
  Value* build_activation(const FusedLayer& fused, Value* x);
  Value* build_dropout(const FusedLayer& fused, Value* x);
  Value* build_pool2d(const FusedLayer& fused, Value* x);
  Value* build_global_avg_pool2d(const FusedLayer& fused, Value* x);
  Value* build_flatten(const FusedLayer& fused, Value* x);
  Value* build_batch_norm2d(const FusedLayer& fused, Value* x);
  Value* build_residual(const FusedLayer& fused, Value* x);
  Value* add_max_pool(const models::LayerSpec& layer, bool relu, const std::string& name, Value* x);
  void add_linear(Value* x, Value* y, const Parameter& weight, const Parameter& bias, const std::string& name);
  struct Norm {  // statistics taken, not yet applied
    Value *x = nullptr, *y = nullptr;
    std::shared_ptr<NormState> state;
    const Operation* statistics = nullptr;
    std::string name;
  };
  Norm begin_norm(const models::LayerSpec& layer, bool relu, Value* x);
  Value* finish_norm(const Norm& norm, Value* addend);
  void hand_on_gradient(Operation& operation, Value* term);
  void must_be_blocked(const models::LayerSpec& layer, const Value& x) const;

  // Planning.
  void cut_into_segments();
  void choose_what_is_kept();
  void keep(Value& value);
  void place_gradients();
  void place_scratch();
  bool is_stored(const Buffer& buffer) const {
    return std::ranges::find(stored_, &buffer, &Stored::buffer) != stored_.end();
  }
  void settle(int64_t samples);

  // Running.
  struct Turn {
    int64_t first, count;
  };
  template <typename Body>
  void run_team(const Body& body);
  void run_forward(const Segment& segment, size_t number, int thread);
  void run_backward(const Segment& segment, size_t number, int thread);
  template <typename Body>
  void timed(int thread, double OperationCost::*cost, const Operation* operation, const Body& body);

  NetworkOptions options_;
  InstructionSet set_;
  const VectorKernels<T>& kernels_;
  Source source_;
  std::deque<Value> values_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::map<const Operation*, size_t> segment_of_;
  std::vector<Segment> segments_;
  std::vector<Stored> stored_;
  int64_t stored_bytes_ = 0;  // per sample
  Value* input_ = nullptr;
  std::byte* stored_input_ = nullptr;  // where the input is kept, if it is
  Value* result_ = nullptr;
  std::vector<std::string> fused_;
  std::set<std::string> fused_set_;

  Pass pass_;
  int64_t capacity_ = 0;  // samples that memory_ holds
  int64_t settled_ = 0;   // samples that buffers and primitives are ready for
  Memory memory_;
  std::vector<Memory> scratch_;
  std::vector<std::vector<std::vector<Turn>>> turns_;  // [segment][thread]
  std::map<const Operation*, OperationCost> costs_;
  bool profiling_ = false;
};

InstructionSet best_instruction_set() { return instruction_sets().back(); }

// The blocks that oneDNN prefers on this CPU.
int lanes_for(InstructionSet set) { return set >= InstructionSet::kAvx512 ? 16 : 8; }

template <typename T>
TapeNetwork<T>::TapeNetwork(const NetworkOptions& options)
    : options_(options), set_(best_instruction_set()), kernels_(vector_kernels<T>(set_, lanes_for(set_))) {
  pass_.threads = options.threads;
  input_ = build_input();
  result_ = build_chain(options_.model.layers, input_);
  MLBENCH_CHECK(result_->layout == Layout::kRows, "a model ends in rows of logits");
  fused_.assign(fused_set_.begin(), fused_set_.end());
  cut_into_segments();
  choose_what_is_kept();
  place_gradients();
  place_scratch();
}

// --- building

template <typename T>
Value* TapeNetwork<T>::new_value(const Shape& shape, Layout layout) {
  Value& value = values_.emplace_back();
  value.shape = shape;
  value.layout = layout;
  int64_t bytes = shape.volume() * static_cast<int64_t>(layout == Layout::kRows ? sizeof(float) : sizeof(T));
  if (layout == Layout::kBlocked) {
    value.blocks = (shape.channels + kernels_.lanes - 1) / kernels_.lanes;
    bytes = value.blocks * kernels_.lanes * shape.pixels() * static_cast<int64_t>(sizeof(T));
  }
  value.data.bytes_per_sample = value.gradient.bytes_per_sample = bytes;
  return &value;
}

template <typename T>
Operation* TapeNetwork<T>::add(std::unique_ptr<Operation> operation, const std::string& name) {
  Operation* added = operations_.emplace_back(std::move(operation)).get();
  added->name = name;
  for (Value* value : added->inputs) value->consumers.push_back(added);
  if (added->output != nullptr) added->output->producer = added;
  std::erase_if(added->writes_gradient_of, [](const Value* value) { return !value->wants_gradient; });
  return added;
}

template <typename T>
const FlatRange& TapeNetwork<T>::range_of(const std::string& name) const {
  for (const FlatRange& range : options_.layout.ranges) {
    if (range.name == name) return range;
  }
  throw InternalError(fmt::format("model '{}' has no parameter {}", options_.model.name, name));
}

template <typename T>
Parameter TapeNetwork<T>::parameter(const std::string& name) const {
  const FlatRange& range = range_of(name);
  return {options_.parameters + range.offset, options_.gradients + range.offset, range.offset, range.count};
}

template <typename T>
float* TapeNetwork<T>::running(const std::string& name) const {
  return options_.buffers + range_of(name).offset;
}

template <typename T>
Value* TapeNetwork<T>::build_input() {
  const std::vector<int64_t>& shape = options_.model.input_shape;
  const std::string first = options_.model.layers.empty() ? "" : options_.model.layers.front().kind;
  Value* input = nullptr;
  if (shape.size() != 3) {
    int64_t volume = 1;
    for (const int64_t extent : shape) volume *= extent;
    const bool sequence = shape.size() == 2;
    input = new_value({sequence ? shape[1] : volume, sequence ? shape[0] : 1, 1}, Layout::kRows);
  } else {
    // oneDNN's first convolutions read images of 1 and 3 channels as they are.
    const bool as_is = first == "conv2d" && (shape[0] == 1 || shape[0] == 3);
    input = new_value({shape[0], shape[1], shape[2]}, as_is ? Layout::kImage : Layout::kBlocked);
  }
  input->wants_gradient = false;
  add(input->layout == Layout::kRows ? make_input<float>(input, source_, kernels_.lanes)
                                     : make_input<T>(input, source_, kernels_.lanes),
      "input");
  return input;
}

template <typename T>
void TapeNetwork<T>::must_be_blocked(const models::LayerSpec& layer, const Value& x) const {
  if (x.layout == Layout::kBlocked) return;
  throw UserError(
      fmt::format("framework 'onednn': layer '{}' of model '{}' takes images that a convolution or a pool "
                  "has computed; here it gets the {}",
                  layer.kind, options_.model.name, x.layout == Layout::kRows ? "rows of a matrix" : "input"));
}

template <typename T>
Value* TapeNetwork<T>::build_chain(std::span<const models::LayerSpec> chain, Value* x) {
  for (const FusedLayer& fused : fuse(chain)) {
    x = build_layer(fused, x);
    if (fused.next != nullptr) fused_set_.insert(fused.name());
  }
  return x;
}

template <typename T>
Value* TapeNetwork<T>::build_layer(const FusedLayer& fused, Value* x) {
  struct Row {
    const char* kind;
    Value* (TapeNetwork::*build)(const FusedLayer& fused, Value* x);
  };
  static constexpr Row kRows[] = {
      {"conv2d", &TapeNetwork::build_conv2d},
      {"linear", &TapeNetwork::build_linear},
      {"lstm", &TapeNetwork::build_lstm},
      {"attention", &TapeNetwork::build_attention},
      {"relu", &TapeNetwork::build_activation},
      {"tanh", &TapeNetwork::build_activation},
      {"softplus", &TapeNetwork::build_activation},
      {"flatten", &TapeNetwork::build_flatten},
      {"batch_norm2d", &TapeNetwork::build_batch_norm2d},
      {"residual", &TapeNetwork::build_residual},
      {"max_pool2d", &TapeNetwork::build_pool2d},
      {"avg_pool2d", &TapeNetwork::build_pool2d},
      {"global_avg_pool2d", &TapeNetwork::build_global_avg_pool2d},
      {"dropout", &TapeNetwork::build_dropout},
  };
  std::vector<const char*> kinds;
  for (const Row& row : kRows) {
    if (row.kind == fused.layer->kind) return (this->*row.build)(fused, x);
    kinds.push_back(row.kind);
  }
  throw UserError(fmt::format("framework 'onednn' has no layer '{}' (model '{}'); it has: {}", fused.layer->kind,
                              options_.model.name, fmt::join(kinds, ", ")));
}

template <typename T>
Value* TapeNetwork<T>::build_conv2d(const FusedLayer& fused, Value* x) {
  const models::LayerSpec& layer = *fused.layer;
  ConvolutionOptions conv;
  conv.kernel = layer.options.at("kernel");
  conv.stride = layer.options.at("stride");
  conv.padding = layer.options.at("padding");
  conv.weight = parameter(layer.name + ".weight");
  if (layer.options.value("bias", true)) conv.bias = parameter(layer.name + ".bias");
  const auto extent = [&](int64_t size) { return (size + 2 * conv.padding - conv.kernel) / conv.stride + 1; };
  Value* y = new_value({layer.options.at("out").get<int64_t>(), extent(x->shape.height), extent(x->shape.width)},
                       Layout::kBlocked);
  add(std::make_unique<Convolution<T>>(x, y, conv, kernels_, options_.threads), layer.name);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_linear(const FusedLayer& fused, Value* x) {
  MLBENCH_CHECK(x->layout == Layout::kRows, "a linear layer takes rows");
  const models::LayerSpec& layer = *fused.layer;
  Value* y = new_value({layer.options.at("out").get<int64_t>(), x->shape.height, 1}, Layout::kRows);
  add_linear(x, y, parameter(layer.name + ".weight"),
             layer.options.value("bias", true) ? parameter(layer.name + ".bias") : Parameter(), layer.name);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_lstm(const FusedLayer& fused, Value* x) {
  MLBENCH_CHECK(x->layout == Layout::kRows, "an lstm takes rows");
  const models::LayerSpec& layer = *fused.layer;
  Value* y = new_value({layer.options.at("hidden").get<int64_t>(), x->shape.height, 1}, Layout::kRows);
  const auto of_layer = [&](const char* suffix) { return parameter(layer.name + suffix); };
  add(make_lstm<T>(x, y, {of_layer(".weight_ih"), of_layer(".weight_hh"), of_layer(".bias_ih"), of_layer(".bias_hh")},
                   options_.threads, row_kernels(set_)),
      layer.name);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_attention(const FusedLayer& fused, Value* x) {
  MLBENCH_CHECK(x->layout == Layout::kRows, "attention takes rows");
  const models::LayerSpec& layer = *fused.layer;
  const Shape& shape = x->shape;
  Value* projected = new_value({3 * shape.channels, shape.height, 1}, Layout::kRows);
  Value* attended = new_value(shape, Layout::kRows);
  Value* y = new_value(shape, Layout::kRows);
  add_linear(x, projected, parameter(layer.name + ".in_weight"), {}, layer.name + " in");
  add(make_attention(projected, attended, layer.options.at("heads"), layer.options.at("causal")), layer.name);
  add_linear(attended, y, parameter(layer.name + ".out_weight"), {}, layer.name + " out");
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_activation(const FusedLayer& fused, Value* x) {
  if (fused.next != nullptr) return add_max_pool(*fused.next, true, fused.name(), x);
  const models::LayerSpec& layer = *fused.layer;
  const bool rows = x->layout == Layout::kRows;
  if (!rows) must_be_blocked(layer, *x);
  Value* y = new_value(x->shape, x->layout);
  add(rows ? make_activation<float>(layer.kind, x, y) : make_activation<T>(layer.kind, x, y), layer.kind);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_dropout(const FusedLayer& fused, Value* x) {
  const models::LayerSpec& layer = *fused.layer;
  const DropoutOptions dropout{layer.options.at("p"), options_.seed, options_.rank, fused.index};
  if (!options_.dropout || dropout.p == 0) return x;
  const bool rows = x->layout == Layout::kRows;
  if (!rows) must_be_blocked(layer, *x);
  Value* y = new_value(x->shape, x->layout);
  add(rows ? make_dropout<float>(x, y, dropout, kernels_.lanes) : make_dropout<T>(x, y, dropout, kernels_.lanes),
      layer.kind);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_pool2d(const FusedLayer& fused, Value* x) {
  const models::LayerSpec& layer = *fused.layer;
  if (layer.kind == "max_pool2d") return add_max_pool(layer, false, layer.kind, x);
  must_be_blocked(layer, *x);
  const auto kernel = layer.options.at("kernel").get<int64_t>();
  Value* y = new_value({x->shape.channels, x->shape.height / kernel, x->shape.width / kernel}, Layout::kBlocked);
  add(make_avg_pool<T>(x, y, kernel, kernels_.lanes), layer.kind);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::add_max_pool(const models::LayerSpec& layer, bool relu, const std::string& name, Value* x) {
  must_be_blocked(layer, *x);
  const auto kernel = layer.options.at("kernel").get<int64_t>();
  Value* y = new_value({x->shape.channels, x->shape.height / kernel, x->shape.width / kernel}, Layout::kBlocked);
  add(make_max_pool<T>(x, y, kernel, relu, kernels_), name);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_flatten(const FusedLayer& fused, Value* x) {
  Value* y = new_value({x->shape.volume(), 1, 1}, Layout::kRows);
  if (x->layout == Layout::kRows) {
    add(make_flatten_rows(x, y), fused.layer->kind);
  } else {
    must_be_blocked(*fused.layer, *x);
    add(make_flatten<T>(x, y, kernels_.lanes), fused.layer->kind);
  }
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_global_avg_pool2d(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  Value* y = new_value({x->shape.channels, 1, 1}, Layout::kRows);
  add(make_global_avg_pool<T>(x, y, kernels_.lanes), fused.layer->kind);
  return y;
}

template <typename T>
Value* TapeNetwork<T>::build_batch_norm2d(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  return finish_norm(begin_norm(*fused.layer, fused.next != nullptr, x), nullptr);
}

// On single rows, the end of a model of images, rounding would cost digits of the logits and gain no time.
template <typename T>
void TapeNetwork<T>::add_linear(Value* x, Value* y, const Parameter& weight, const Parameter& bias,
                                const std::string& name) {
  add(x->shape.height > 1 ? make_linear<T>(x, y, weight, bias) : make_linear<float>(x, y, weight, bias), name);
}

template <typename T>
auto TapeNetwork<T>::begin_norm(const models::LayerSpec& layer, bool relu, Value* x) -> Norm {
  NormOptions options;
  options.weight = parameter(layer.name + ".weight");
  options.bias = parameter(layer.name + ".bias");
  options.running_mean = running(layer.name + ".running_mean");
  options.running_variance = running(layer.name + ".running_var");
  options.eps = layer.options.at("eps");
  options.momentum = layer.options.at("momentum");
  options.frozen = options_.frozen_batch_norm;
  options.relu = relu;
  Norm norm;
  norm.x = x;
  norm.y = new_value(x->shape, Layout::kBlocked);
  norm.state = make_norm_state(options, x->shape.channels, x->blocks * kernels_.lanes, options_.threads);
  norm.name = layer.name;
  norm.statistics = add(make_batch_statistics<T>(x, norm.y, norm.state, kernels_), layer.name + " statistics");
  return norm;
}

template <typename T>
Value* TapeNetwork<T>::finish_norm(const Norm& norm, Value* addend) {
  Operation* operation = add(make_normalise<T>(norm.x, addend, norm.y, norm.state, kernels_), norm.name);
  operation->after = norm.statistics;
  if (addend != nullptr) hand_on_gradient(*operation, addend);
  return norm.y;
}

template <typename T>
Value* TapeNetwork<T>::build_residual(const FusedLayer& fused, Value* x) {
  must_be_blocked(*fused.layer, *x);
  const NormalisedChain body = split_norm(fused.layer->body), shortcut = split_norm(fused.layer->shortcut);
  // The shortcut first: its convolution shares a segment with the first one of the body.
  Value* b = build_chain(shortcut.layers, x);
  Norm of_shortcut, of_body;
  if (shortcut.norm != nullptr) of_shortcut = begin_norm(*shortcut.norm, false, b);
  Value* a = build_chain(body.layers, x);
  if (body.norm != nullptr) of_body = begin_norm(*body.norm, fused.next != nullptr, a);
  if (shortcut.norm != nullptr) b = finish_norm(of_shortcut, nullptr);
  if (body.norm != nullptr) {
    fused_set_.insert("batch_norm2d+residual");
    return finish_norm(of_body, b);
  }
  Value* y = new_value(x->shape, Layout::kBlocked);
  y->shape = a->shape;
  y->blocks = a->blocks;
  y->data.bytes_per_sample = y->gradient.bytes_per_sample = a->data.bytes_per_sample;
  Operation* sum = add(make_sum<T>(a, b, y, kernels_), "residual");
  hand_on_gradient(*sum, a);
  hand_on_gradient(*sum, b);
  return y;
}

// A term of a sum has the sum's gradient; one sum per value needs no copy of it.
template <typename T>
void TapeNetwork<T>::hand_on_gradient(Operation& operation, Value* term) {
  if (!term->wants_gradient) return;
  if (term->alias == nullptr) {
    term->alias = operation.output;
  } else {
    operation.writes_gradient_of.push_back(term);
  }
}

// --- planning

template <typename T>
void TapeNetwork<T>::cut_into_segments() {
  for (const auto& operation : operations_) {
    const bool alone = operation->by_batch || (!segments_.empty() && segments_.back().by_batch);
    const bool waits = operation->after != nullptr && segment_of_.at(operation->after) + 1 == segments_.size();
    if (segments_.empty() || alone || waits) segments_.emplace_back();
    Segment& segment = segments_.back();
    segment.by_batch = operation->by_batch;
    segment.operations.push_back(operation.get());
    segment_of_[operation.get()] = segments_.size() - 1;
  }
}

template <typename T>
void TapeNetwork<T>::keep(Value& value) {
  if (is_stored(value.data)) return;
  Operation* producer = value.producer;
  const size_t home = segment_of_.at(producer);
  const bool local =
      std::ranges::all_of(value.consumers, [&](const Operation* consumer) { return segment_of_.at(consumer) == home; });
  if (!local || !producer->cheap) {
    stored_.push_back({&value.data, home, segments_.size()});
    return;
  }
  if (producer->recompute) return;
  producer->recompute = true;
  for (Value* input : producer->inputs) keep(*input);
}

template <typename T>
void TapeNetwork<T>::choose_what_is_kept() {
  stored_.push_back({&result_->data, segment_of_.at(result_->producer), segments_.size()});
  for (const auto& operation : operations_) {
    for (Value* value : operation->keeps) keep(*value);
    for (Buffer* buffer : operation->state)
      stored_.push_back({buffer, segment_of_.at(operation.get()), segments_.size()});
  }
  for (Value& value : values_) {
    const size_t home = segment_of_.at(value.producer);
    const bool crosses = std::ranges::any_of(
        value.consumers, [&](const Operation* consumer) { return segment_of_.at(consumer) != home; });
    if (crosses) keep(value);
  }
}

template <typename T>
void TapeNetwork<T>::place_gradients() {
  for (auto operation = operations_.rbegin(); operation != operations_.rend(); ++operation) {
    for (Value* value : (*operation)->writes_gradient_of) (*operation)->adds.push_back(value->writers++ > 0);
  }
  ++result_->writers;                              // the loss
  std::map<const Buffer*, std::set<size_t>> used;  // in which segments
  for (Value& value : values_) {
    // Normalise leaves what it has merged and masked in its own.
    value.owns_gradient = value.writers > 0 || (value.alias != nullptr && value.producer->merges_alias &&
                                                std::ranges::count(value.producer->keeps, &value) > 0);
  }
  for (Value& value : values_) {
    if (!value.wants_gradient) continue;
    MLBENCH_CHECK(value.owns_gradient || value.alias != nullptr, "a value without gradient: " + value.producer->name);
    const size_t home = segment_of_.at(value.producer);
    used[&value.final_gradient()].insert(home);
    if (value.owns_gradient) used[&value.gradient].insert(home);
    if (value.alias != nullptr) used[&value.alias->final_gradient()].insert(home);
  }
  for (const auto& operation : operations_) {
    const size_t at = segment_of_.at(operation.get());
    for (const Value* value : operation->writes_gradient_of) used[&value->gradient].insert(at);
    for (const Value* value : operation->reads_gradient_of) used[&value->final_gradient()].insert(at);
  }
  used[&result_->gradient].insert(segments_.size());
  for (Value& value : values_) {
    const auto found = used.find(&value.gradient);
    if (!value.owns_gradient || found == used.end() || found->second.size() < 2) continue;
    stored_.push_back({&value.gradient, *found->second.begin(), *found->second.rbegin()});
  }
  // First fit: buffers that are never in use at once may share their place. Data are in use from their segment to the
  // end, gradients between two segments of the backward pass, when all data are.
  std::vector<const Stored*> placed;
  const auto is_data = [&](const Stored& stored) {
    return stored.last == segments_.size() && stored.buffer != &result_->gradient;
  };
  for (Stored& stored : stored_) {
    const int64_t bytes = rounded_up(stored.buffer->bytes_per_sample, kLine);
    const auto collides = [&](const Stored& other) {
      const bool apart = stored.offset + bytes <= other.offset ||
                         other.offset + rounded_up(other.buffer->bytes_per_sample, kLine) <= stored.offset;
      const bool never_at_once =
          !is_data(stored) && !is_data(other) && (stored.last < other.first || other.last < stored.first);
      return !apart && !never_at_once;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (const Stored* other : placed) {
        if (!collides(*other)) continue;
        stored.offset = other->offset + rounded_up(other->buffer->bytes_per_sample, kLine);
        moved = true;
      }
    }
    placed.push_back(&stored);
    stored_bytes_ = std::max(stored_bytes_, stored.offset + bytes);
  }
}

template <typename T>
void TapeNetwork<T>::place_scratch() {
  for (Segment& segment : segments_) {
    int64_t largest = 1;
    for (const Operation* operation : segment.operations) {
      std::vector<const Value*> touched(operation->inputs.begin(), operation->inputs.end());
      if (operation->output != nullptr) touched.push_back(operation->output);
      for (const Value* value : touched) largest = std::max(largest, value->data.bytes_per_sample);
    }
    segment.chunk = std::max<int64_t>(1, kChunkBytes / largest);
  }
}

// Buffers, chunks and primitives for batches of this size.
template <typename T>
void TapeNetwork<T>::settle(int64_t samples) {
  if (samples == settled_) return;
  if (samples > capacity_) {
    memory_ = Memory();
    memory_ = Memory(stored_bytes_ * samples);
    capacity_ = samples;
  }
  for (const Stored& stored : stored_) stored.buffer->whole = memory_.get() + stored.offset * samples;
  stored_input_ = is_stored(input_->data) ? input_->data.whole : nullptr;

  turns_.clear();
  struct Placed {
    Buffer* buffer;
    int64_t offset;
  };
  std::vector<Placed> placed;
  int64_t scratch_bytes = 0;
  for (const Segment& segment : segments_) {
    std::vector<std::vector<Turn>>& of_threads = turns_.emplace_back(static_cast<size_t>(options_.threads));
    std::set<int64_t> counts;
    for (int thread = 0; thread < options_.threads; ++thread) {
      const Share share = share_of(samples, thread, options_.threads);
      const int64_t chunks = (share.count() + segment.chunk - 1) / segment.chunk;
      for (int64_t i = 0; i < chunks; ++i) {
        const Share part = share_of(share.count(), static_cast<int>(i), static_cast<int>(chunks));
        of_threads[static_cast<size_t>(thread)].push_back({share.begin + part.begin, part.count()});
        counts.insert(part.count());
      }
    }
    if (segment.by_batch) counts = {samples};
    for (Operation* operation : segment.operations) operation->prepare({counts.begin(), counts.end()}, samples);
    // What belongs to a chunk: one after the other, anew in each segment.
    int64_t offset = 0;
    const auto place = [&](Buffer& buffer, bool stored) {
      if (stored) return;
      placed.push_back({&buffer, offset});
      offset += rounded_up(buffer.bytes_per_sample * (counts.empty() ? 0 : *counts.rbegin()), kLine);
    };
    for (const Operation* operation : segment.operations) {
      if (Value* y = operation->output; y != nullptr) {
        place(y->data, is_stored(y->data));
        if (y->owns_gradient) place(y->gradient, is_stored(y->gradient));
      }
      for (Buffer* buffer : operation->temporary) place(*buffer, false);
    }
    scratch_bytes = std::max(scratch_bytes, offset);
  }
  scratch_.clear();
  for (int thread = 0; thread < options_.threads; ++thread) scratch_.emplace_back(scratch_bytes);
  for (const Placed& one : placed) {
    one.buffer->scratch.clear();
    for (const Memory& memory : scratch_) one.buffer->scratch.push_back(memory.get() + one.offset);
  }
  settled_ = samples;
}

// --- running

template <typename T>
template <typename Body>
void TapeNetwork<T>::run_team(const Body& body) {
  FirstError error;
#pragma omp parallel num_threads(options_.threads)
  {
    error.guard([&] {
      MLBENCH_CHECK(omp_get_num_threads() == options_.threads,
                    fmt::format("OpenMP gave {} threads of {}", omp_get_num_threads(), options_.threads));
    });
    body(omp_get_thread_num(), error);
  }
  error.rethrow();
}

template <typename T>
template <typename Body>
void TapeNetwork<T>::timed(int thread, double OperationCost::*cost, const Operation* operation, const Body& body) {
  if (!profiling_ || !pass_.training || thread != 0) return body();
  const auto begin = std::chrono::steady_clock::now();
  body();
  costs_.at(operation).*cost += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Every other segment goes through the chunks backwards: it begins with what the cache holds from the one before.
template <typename Turns, typename Body>
void for_turns(const Turns& turns, bool backwards, const Body& body) {
  for (size_t i = 0; i < turns.size(); ++i) body(turns[backwards ? turns.size() - 1 - i : i]);
}

template <typename T>
void TapeNetwork<T>::run_forward(const Segment& segment, size_t number, int thread) {
  if (segment.by_batch) {
    Operation* operation = segment.operations.front();
    timed(thread, &OperationCost::forward_s, operation, [&] { operation->forward({thread, 0, pass_.samples}, pass_); });
    return;
  }
  for_turns(turns_[number][static_cast<size_t>(thread)], number % 2 == 1, [&](const Turn& turn) {
    for (Operation* operation : segment.operations) {
      timed(thread, &OperationCost::forward_s, operation, [&] {
        operation->forward({thread, turn.first, turn.count}, pass_);
      });
    }
  });
}

template <typename T>
void TapeNetwork<T>::run_backward(const Segment& segment, size_t number, int thread) {
  const auto one = [&](Operation* operation, const Chunk& chunk) {
    timed(thread, &OperationCost::backward_s, operation, [&] {
      const Value* y = operation->output;
      if (y != nullptr && y->alias != nullptr && y->writers > 0 && !operation->merges_alias) {
        T* gradient = y->gradient.template at<T>(chunk);
        kernels_.add(gradient, y->alias->final_gradient().template at<T>(chunk), y->planes(chunk) * y->shape.pixels(),
                     gradient);
      }
      operation->backward(chunk, pass_);
    });
  };
  if (segment.by_batch) return one(segment.operations.front(), {thread, 0, pass_.samples});
  for_turns(turns_[number][static_cast<size_t>(thread)], number % 2 == 0, [&](const Turn& turn) {
    const Chunk chunk{thread, turn.first, turn.count};
    for (Operation* operation : segment.operations) {
      if (!operation->recompute) continue;
      timed(thread, &OperationCost::backward_s, operation, [&] { operation->forward(chunk, pass_); });
    }
    for (auto operation = segment.operations.rbegin(); operation != segment.operations.rend(); ++operation) {
      one(*operation, chunk);
    }
  });
}

template <typename T>
void TapeNetwork<T>::forward(const BatchView& batch, bool training, int64_t step) {
  MLBENCH_CHECK(batch.features.dtype == DType::kFloat32 &&
                    (batch.dense() ? batch.features.count == batch.samples * batch.sample_volume()
                                   : static_cast<int64_t>(batch.rows.size()) == batch.samples) &&
                    batch.sample_volume() == input_->shape.volume(),
                fmt::format("{} samples of {} x {}, {} values, {} rows", batch.samples, batch.sample_volume(),
                            name_of(batch.features.dtype), batch.features.count, batch.rows.size()));
  const SingleThreaded single;
  settle(batch.samples);
  source_ = {static_cast<const float*>(batch.features.data), batch.dense() ? nullptr : batch.rows.data(),
             batch.dense() &&
                 (input_->layout == Layout::kRows || (input_->layout == Layout::kImage && std::is_same_v<T, float>))};
  // Nothing writes to its input.
  input_->data.whole =
      source_.in_place ? reinterpret_cast<std::byte*>(const_cast<float*>(source_.features)) : stored_input_;
  pass_.training = training;
  pass_.step = step;
  pass_.samples = batch.samples;
  run_team([&](int thread, FirstError& error) {
    error.guard([&] {
      for (const auto& operation : operations_) operation->pack(thread, pass_);
    });
#pragma omp barrier
    for (size_t i = 0; i < segments_.size(); ++i) {
      error.guard([&] { run_forward(segments_[i], i, thread); });
#pragma omp barrier
      error.guard([&] {
        for (Operation* operation : segments_[i].operations) operation->finish_forward(thread, pass_);
      });
    }
  });
}

template <typename T>
std::span<const float> TapeNetwork<T>::outputs() const {
  return {result_->data.at<float>({0, 0, pass_.samples}), static_cast<size_t>(pass_.samples * options_.model.outputs)};
}

template <typename T>
void TapeNetwork<T>::backward(std::span<const float> output_gradient, bool accumulate, const Ready& ready) {
  MLBENCH_CHECK(pass_.training && output_gradient.size() == outputs().size(), "backward follows forward(training)");
  const SingleThreaded single;
  std::ranges::copy(output_gradient, result_->gradient.at<float>({0, 0, pass_.samples}));
  pass_.accumulate = accumulate;
  const auto tell = [&](const Segment& segment) {
    for (auto operation = segment.operations.rbegin(); ready && operation != segment.operations.rend(); ++operation) {
      for (const Parameter& parameter : (*operation)->parameters) ready(parameter.offset, parameter.count);
    }
  };
  run_team([&](int thread, FirstError& error) {
    for (size_t i = segments_.size(); i-- > 0;) {
      error.guard([&] { run_backward(segments_[i], i, thread); });
#pragma omp barrier
      // Gradients of the segment before are complete: all threads have passed their finish_backward.
      if (thread == 0 && i + 1 < segments_.size()) error.guard([&] { tell(segments_[i + 1]); });
      error.guard([&] {
        for (Operation* operation : segments_[i].operations) operation->finish_backward(thread, pass_);
      });
    }
#pragma omp barrier
    if (thread == 0) error.guard([&] { tell(segments_.front()); });
  });
}

template <typename T>
void TapeNetwork<T>::profile(bool on) {
  profiling_ = on;
  if (!on) return;
  costs_.clear();
  for (const auto& operation : operations_) costs_[operation.get()] = {};
}

template <typename T>
std::vector<OperationCost> TapeNetwork<T>::costs() {
  const SingleThreaded single;
  std::vector<OperationCost> costs;
  for (const auto& operation : operations_) {
    const auto found = costs_.find(operation.get());
    OperationCost cost = found != costs_.end() ? found->second : OperationCost();
    cost.name = operation->name;
    cost.implementation = operation->explanation;
    cost.forward_flops = operation->flops;
    cost.backward_flops = operation->flops * static_cast<double>(1 + operation->writes_gradient_of.size());
    for (const Value* value : operation->inputs) cost.bytes += value->data.bytes_per_sample;
    if (operation->output != nullptr) cost.bytes += operation->output->data.bytes_per_sample;
    const auto [forward, backward] = operation->measure_floor();
    cost.forward_floor_s = forward;
    cost.backward_floor_s = backward;
    costs.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace

std::unique_ptr<Network> make_float32_network(const NetworkOptions& options) {
  return std::make_unique<TapeNetwork<float>>(options);
}

std::unique_ptr<Network> make_bfloat16_network(const NetworkOptions& options) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  if ((isa & kNeeded) != kNeeded) {
    throw UserError(
        "framework 'onednn' has no precision 'bf16' here: this CPU has neither AVX512-BF16 nor AMX (or "
        "ONEDNN_MAX_CPU_ISA hides it); valid: float32");
  }
  return std::make_unique<TapeNetwork<BFloat16>>(options);
}

}  // namespace mlbench::framework::onednn_framework
