#include "mlbench/framework/native/tape/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "mlbench/framework/native/tape/elements.h"
#include "mlbench/framework/native/tape/memory_plan.h"
#include "mlbench/framework/native/tape/profile.h"

namespace mlbench::framework::native_framework {

class NormState {
 public:
  NormState(const NormOptions& options, int64_t channels, int64_t padded, int threads)
      : options_(options), channels_(channels), padded_(padded), threads_(static_cast<size_t>(threads)) {}

  struct PerThread {
    std::vector<double> sum, second;                         // sums over this thread's samples
    std::vector<float> mean, inv_std, scale, bias, a, b, c;  // about the batch, the same on all threads
  };
  const NormOptions& options() const { return options_; }
  int64_t padded() const { return padded_; }
  PerThread& of(int thread) { return threads_[static_cast<size_t>(thread)]; }
  bool of_batch(const Pass& pass) const { return pass.training && !options_.frozen; }

  void clear_sums(int thread) {
    of(thread).sum.assign(static_cast<size_t>(padded_), 0);
    of(thread).second.assign(static_cast<size_t>(padded_), 0);
  }

  // Every thread computes this from the sums of all, so that threads meet once instead of twice.
  void finish_forward(int thread, double rows, const Pass& pass) {
    PerThread& mine = of(thread);
    for (std::vector<float>* values : {&mine.mean, &mine.inv_std, &mine.scale, &mine.bias}) {
      values->assign(static_cast<size_t>(padded_), 0);
    }
    for (int64_t i = 0; i < channels_; ++i) {
      const auto c = static_cast<size_t>(i);
      double mean = 0, variance = 0;
      if (!of_batch(pass)) {
        mean = options_.running_mean[i];
        variance = options_.running_variance[i];
      } else {
        double sum = 0, squares = 0;
        for (const PerThread& part : threads_) {
          sum += part.sum[c];
          squares += part.second[c];
        }
        mean = sum / rows;
        variance = std::max(0.0, squares / rows - mean * mean);
      }
      mine.mean[c] = static_cast<float>(mean);
      mine.inv_std[c] =
          static_cast<float>(1 / std::sqrt(static_cast<double>(static_cast<float>(variance)) + options_.eps));
      mine.scale[c] = mine.inv_std[c] * options_.weight.value[i];
      mine.bias[c] = options_.bias.value[i];
      if (thread != 0 || !of_batch(pass)) continue;
      const auto average = [&](float& running, double value) {
        running = static_cast<float>((1 - options_.momentum) * running + options_.momentum * value);
      };
      average(options_.running_mean[i], mean);
      average(options_.running_variance[i], variance * rows / std::max(1.0, rows - 1));
    }
  }

  // Computes the factors in dx = a * g + b * (x - mean) + c, and thread 0 the gradients of weight and bias.
  void finish_backward(int thread, double rows, const Pass& pass) {
    PerThread& mine = of(thread);
    for (std::vector<float>* values : {&mine.a, &mine.b, &mine.c}) values->assign(static_cast<size_t>(padded_), 0);
    for (int64_t i = 0; i < channels_; ++i) {
      const auto c = static_cast<size_t>(i);
      double sum = 0, product = 0;
      for (const PerThread& part : threads_) {
        sum += part.sum[c];
        product += part.second[c];
      }
      const double inv_std = mine.inv_std[c], scale = inv_std * options_.weight.value[i];
      mine.a[c] = static_cast<float>(scale);
      mine.b[c] = of_batch(pass) ? static_cast<float>(-scale * inv_std * inv_std * product / rows) : 0.0F;
      mine.c[c] = of_batch(pass) ? static_cast<float>(-scale * sum / rows) : 0.0F;
      if (thread != 0) continue;
      const auto put = [&](float* gradient, double value) {
        gradient[i] = static_cast<float>(value) + (pass.accumulate ? gradient[i] : 0.0F);
      };
      put(options_.bias.gradient, sum);
      put(options_.weight.gradient, product * inv_std);
    }
  }

 private:
  NormOptions options_;
  int64_t channels_, padded_;
  std::vector<PerThread> threads_;
};

namespace {

// Calls body(offset of the plane in elements, first channel of its block) for each plane of a chunk.
template <typename Body>
void for_planes(const Value& value, const Chunk& chunk, int lanes, const Body& body) {
  const int64_t plane = value.shape.pixels() * lanes;
  for (int64_t i = 0; i < chunk.count * value.blocks; ++i) body(i * plane, i % value.blocks * lanes);
}

// The kernels of one chunk alone, again and again: what Operation::measure_floor() gives. Values are neither zero nor
// denormal.
template <typename T>
class ChunkAlone {
 public:
  ChunkAlone(const Value& value, int64_t samples, const VectorKernels<T>& kernels)
      : value_(value), samples_(samples), lanes_(kernels.lanes), memory_(4 * bytes()) {
    std::fill_n(at(0), 4 * bytes() / static_cast<int64_t>(sizeof(T)), rounded_to<T>(0.25F));
  }
  T* at(int number) const { return reinterpret_cast<T*>(memory_.get() + number * bytes()); }  // one of four values
  const float* channels() const { return channels_.data(); }
  double* sums() { return sums_.data(); }

  // Calls body(offset of the plane) for each plane. Returns the seconds per sample.
  template <typename Body>
  double fastest_s(const Body& body) const {
    return fastest_call_s([&] {
             for_planes(value_, {0, 0, samples_}, lanes_, [&](int64_t plane, int64_t) { body(plane); });
           }) /
           static_cast<double>(samples_);
  }

 private:
  int64_t bytes() const { return samples_ * value_.data.bytes_per_sample; }

  const Value& value_;
  int64_t samples_;
  int lanes_;
  HugePages memory_;
  std::vector<float> channels_ = std::vector<float>(static_cast<size_t>(lanes_), 0.5F);
  std::vector<double> sums_ = std::vector<double>(static_cast<size_t>(lanes_));
};

template <typename T>
class BatchStatistics final : public Operation {
 public:
  BatchStatistics(Value* x, const Value* normalised, std::shared_ptr<NormState> state, const VectorKernels<T>& kernels)
      : normalised_(normalised), state_(std::move(state)), kernels_(kernels) {
    inputs = {x};
    keeps = {x};
    writes_gradient_of = {x};
    reads_gradient_of = {normalised};
  }

  void prepare(const std::vector<int64_t>& counts) override {
    for (const int64_t count : counts) most_samples_ = std::max(most_samples_, count);
  }

  void pack(int thread, const Pass&) override { state_->clear_sums(thread); }

  void forward(const Chunk& chunk, const Pass& pass) override {
    if (!state_->of_batch(pass)) return;
    const Value& x = *inputs[0];
    const T* values = x.data.template at<T>(chunk);
    NormState::PerThread& mine = state_->of(chunk.thread);
    for_planes(x, chunk, kernels_.lanes, [&](int64_t at, int64_t channel) {
      kernels_.moments(values + at, x.shape.pixels(), mine.sum.data() + channel, mine.second.data() + channel);
    });
  }

  void finish_forward(int thread, const Pass& pass) override {
    state_->finish_forward(thread, static_cast<double>(pass.samples * inputs[0]->shape.pixels()), pass);
  }

  void backward(const Chunk& chunk, const Pass&) override {
    const Value& x = *inputs[0];
    const T* values = x.data.template at<T>(chunk);
    const T* g = normalised_->final_gradient().template at<T>(chunk);
    T* dx = x.gradient.template at<T>(chunk);
    const NormState::PerThread& mine = state_->of(chunk.thread);
    for_planes(x, chunk, kernels_.lanes, [&](int64_t at, int64_t c) {
      kernels_.norm_input(values + at, g + at, adds[0] ? dx + at : nullptr, x.shape.pixels(), mine.mean.data() + c,
                          mine.a.data() + c, mine.b.data() + c, mine.c.data() + c, dx + at);
    });
  }

  Floor measure_floor() override {
    if (most_samples_ == 0) return {};
    const int64_t rows = inputs[0]->shape.pixels();
    ChunkAlone<T> alone(*inputs[0], most_samples_, kernels_);
    const float* of_channel = alone.channels();
    Floor floor;
    if (!state_->options().frozen) {
      floor.forward_s = alone.fastest_s(
          [&](int64_t plane) { kernels_.moments(alone.at(0) + plane, rows, alone.sums(), alone.sums()); });
    }
    floor.backward_s = alone.fastest_s([&](int64_t plane) {
      T* dx = alone.at(2) + plane;
      kernels_.norm_input(alone.at(0) + plane, alone.at(1) + plane, adds[0] ? dx : nullptr, rows, of_channel,
                          of_channel, of_channel, of_channel, dx);
    });
    return floor;
  }

 private:
  int64_t most_samples_ = 0;
  const Value* normalised_;
  std::shared_ptr<NormState> state_;
  const VectorKernels<T>& kernels_;
};

template <typename T>
class Normalise final : public Operation {
 public:
  Normalise(Value* x, Value* addend, Value* y, std::shared_ptr<NormState> state, const VectorKernels<T>& kernels)
      : state_(std::move(state)), kernels_(kernels) {
    inputs = {x};
    if (addend != nullptr) inputs.push_back(addend);
    output = y;
    cheap = true;
    merges_alias = true;
    keeps = {x};
    if (state_->options().relu) keeps.push_back(y);
    parameters = {state_->options().bias, state_->options().weight};
  }

  void prepare(const std::vector<int64_t>& counts) override {
    for (const int64_t count : counts) most_samples_ = std::max(most_samples_, count);
  }

  void forward(const Chunk& chunk, const Pass&) override {
    const Value& x = *inputs[0];
    const T* values = x.data.template at<T>(chunk);
    const T* addend = inputs.size() > 1 ? inputs[1]->data.template at<T>(chunk) : nullptr;
    T* y = output->data.template at<T>(chunk);
    const NormState::PerThread& mine = state_->of(chunk.thread);
    for_planes(x, chunk, kernels_.lanes, [&](int64_t at, int64_t c) {
      kernels_.normalise(values + at, addend != nullptr ? addend + at : nullptr, x.shape.pixels(), mine.mean.data() + c,
                         mine.scale.data() + c, mine.bias.data() + c, state_->options().relu, y + at);
    });
  }

  void finish_forward(int thread, const Pass&) override { state_->clear_sums(thread); }

  void backward(const Chunk& chunk, const Pass&) override {
    const Value& x = *inputs[0];
    const bool relu = state_->options().relu;
    const T* values = x.data.template at<T>(chunk);
    const T* y = relu ? output->data.template at<T>(chunk) : nullptr;
    const T* own = output->writers > 0 ? output->gradient.template at<T>(chunk) : nullptr;
    const T* alias = output->alias != nullptr ? output->alias->final_gradient().template at<T>(chunk) : nullptr;
    const T* dy = own != nullptr ? own : alias;
    const T* extra = own != nullptr ? alias : nullptr;
    T* g = relu || extra != nullptr ? output->gradient.template at<T>(chunk) : nullptr;
    NormState::PerThread& mine = state_->of(chunk.thread);
    for_planes(x, chunk, kernels_.lanes, [&](int64_t at, int64_t c) {
      const auto from = [at](auto* values_of) { return values_of != nullptr ? values_of + at : nullptr; };
      kernels_.norm_sums(values + at, from(y), dy + at, from(extra), x.shape.pixels(), mine.mean.data() + c, from(g),
                         mine.sum.data() + c, mine.second.data() + c);
    });
    if (writes_gradient_of.empty()) return;
    const Value& addend = *writes_gradient_of[0];
    const T* total = output->final_gradient().template at<T>(chunk);
    T* target = addend.gradient.template at<T>(chunk);
    const int64_t rows = addend.planes(chunk) * addend.shape.pixels();
    if (adds[0]) {
      kernels_.add(target, total, rows, target);
    } else {
      std::memcpy(target, total, static_cast<size_t>(chunk.count * addend.gradient.bytes_per_sample));
    }
  }

  void finish_backward(int thread, const Pass& pass) override {
    state_->finish_backward(thread, static_cast<double>(pass.samples * inputs[0]->shape.pixels()), pass);
  }

  // The floor leaves out the copy of a gradient to an addend, which few norms make.
  Floor measure_floor() override {
    if (most_samples_ == 0) return {};
    const int64_t rows = inputs[0]->shape.pixels();
    const bool relu = state_->options().relu, extra = output->writers > 0 && output->alias != nullptr;
    ChunkAlone<T> alone(*inputs[0], most_samples_, kernels_);
    const float* of_channel = alone.channels();
    Floor floor;
    floor.forward_s = alone.fastest_s([&](int64_t plane) {
      kernels_.normalise(alone.at(0) + plane, inputs.size() > 1 ? alone.at(1) + plane : nullptr, rows, of_channel,
                         of_channel, of_channel, relu, alone.at(2) + plane);
    });
    floor.backward_s = alone.fastest_s([&](int64_t plane) {
      kernels_.norm_sums(alone.at(0) + plane, relu ? alone.at(2) + plane : nullptr, alone.at(3) + plane,
                         extra ? alone.at(1) + plane : nullptr, rows, of_channel,
                         relu || extra ? alone.at(3) + plane : nullptr, alone.sums(), alone.sums());
    });
    if (recompute) floor.backward_s += floor.forward_s;
    return floor;
  }

 private:
  int64_t most_samples_ = 0;
  std::shared_ptr<NormState> state_;
  const VectorKernels<T>& kernels_;
};

}  // namespace

std::shared_ptr<NormState> make_norm_state(const NormOptions& options, int64_t channels, int64_t padded, int threads) {
  return std::make_shared<NormState>(options, channels, padded, threads);
}

template <typename T>
std::unique_ptr<Operation> make_batch_statistics(Value* x, const Value* normalised, std::shared_ptr<NormState> state,
                                                 const VectorKernels<T>& kernels) {
  return std::make_unique<BatchStatistics<T>>(x, normalised, std::move(state), kernels);
}

template <typename T>
std::unique_ptr<Operation> make_normalise(Value* x, Value* addend, Value* output, std::shared_ptr<NormState> state,
                                          const VectorKernels<T>& kernels) {
  return std::make_unique<Normalise<T>>(x, addend, output, std::move(state), kernels);
}

#define MLBENCH_FOR_TYPE(T)                                                                                      \
  template std::unique_ptr<Operation> make_batch_statistics<T>(Value*, const Value*, std::shared_ptr<NormState>, \
                                                               const VectorKernels<T>&);                         \
  template std::unique_ptr<Operation> make_normalise<T>(Value*, Value*, Value*, std::shared_ptr<NormState>,      \
                                                        const VectorKernels<T>&);
MLBENCH_FOR_TYPE(float)
MLBENCH_FOR_TYPE(BFloat16)
#undef MLBENCH_FOR_TYPE

}  // namespace mlbench::framework::native_framework
