#include "mlbench/framework/onednn/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/framework/onednn/bfloat16.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::onednn_framework {

namespace {

// Where element (channel, pixel) of a sample lies.
struct Blocked {
  int64_t pixels;
  int lanes;
  int64_t operator()(int64_t channel, int64_t pixel) const {
    return (channel / lanes * pixels + pixel) * lanes + channel % lanes;
  }
};

int64_t elements_of(const Value& value, int lanes) {
  return value.layout == Layout::kBlocked ? value.blocks * value.shape.pixels() * lanes : value.shape.volume();
}

// --- input

template <typename T>
class Input final : public Operation {
 public:
  Input(Value* result, const Source& source, int lanes) : source_(source), lanes_(lanes) {
    output = result;
    cheap = true;
  }

  void forward(const Chunk& chunk, const Pass&) override {
    if (source_.in_place) return;
    const Shape& shape = output->shape;
    T* to = output->data.template at<T>(chunk);
    const int64_t elements = elements_of(*output, lanes_);
    for (int64_t i = 0; i < chunk.count; ++i, to += elements) {
      const int64_t sample = chunk.first + i;
      const float* from = source_.features + (source_.rows != nullptr ? source_.rows[sample] : sample) * shape.volume();
      if (output->layout == Layout::kBlocked) {
        std::fill_n(to, elements, rounded_to<T>(0));
        const Blocked at{shape.pixels(), lanes_};
        for (int64_t channel = 0; channel < shape.channels; ++channel) {
          for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) to[at(channel, pixel)] = rounded_to<T>(*from++);
        }
      } else {
        for (int64_t j = 0; j < elements; ++j) to[j] = rounded_to<T>(from[j]);
      }
    }
  }
  void backward(const Chunk&, const Pass&) override {}

 private:
  const Source& source_;
  int lanes_;
};

}  // namespace

// --- batch normalisation

class NormState {
 public:
  NormState(const NormOptions& options, int64_t channels, int64_t padded, int threads)
      : options_(options), channels_(channels), padded_(padded), threads_(static_cast<size_t>(threads)) {}

  struct PerThread {
    std::vector<double> sum, second;                         // of this thread's samples
    std::vector<float> mean, inv_std, scale, bias, a, b, c;  // of the batch: the same on all threads
  };
  const NormOptions& options() const { return options_; }
  int64_t padded() const { return padded_; }
  PerThread& of(int thread) { return threads_[static_cast<size_t>(thread)]; }
  bool of_batch(const Pass& pass) const { return pass.training && !options_.frozen; }

  void clear_sums(int thread) {
    of(thread).sum.assign(static_cast<size_t>(padded_), 0);
    of(thread).second.assign(static_cast<size_t>(padded_), 0);
  }

  // Every thread for itself, from the sums of all: one meeting instead of two.
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

  // dx = a * g + b * (x - mean) + c
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

// The planes of a chunk, one after the other: body(offset of the plane in elements, first channel of the block).
template <typename Body>
void for_planes(const Value& value, const Chunk& chunk, int lanes, const Body& body) {
  const int64_t plane = value.shape.pixels() * lanes;
  for (int64_t i = 0; i < chunk.count * value.blocks; ++i) body(i * plane, i % value.blocks * lanes);
}

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

 private:
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

 private:
  std::shared_ptr<NormState> state_;
  const VectorKernels<T>& kernels_;
};

// --- sums

template <typename T>
class Sum final : public Operation {
 public:
  Sum(Value* a, Value* b, Value* result, const VectorKernels<T>& kernels) : kernels_(kernels) {
    inputs = {a, b};
    output = result;
    cheap = true;
  }
  void forward(const Chunk& chunk, const Pass&) override {
    kernels_.add(inputs[0]->data.template at<T>(chunk), inputs[1]->data.template at<T>(chunk),
                 output->planes(chunk) * output->shape.pixels(), output->data.template at<T>(chunk));
  }
  // Only to terms that could not take the gradient as it is.
  void backward(const Chunk& chunk, const Pass&) override {
    const T* total = output->final_gradient().template at<T>(chunk);
    for (size_t i = 0; i < writes_gradient_of.size(); ++i) {
      const Value& term = *writes_gradient_of[i];
      T* target = term.gradient.template at<T>(chunk);
      if (adds[i]) {
        kernels_.add(target, total, term.planes(chunk) * term.shape.pixels(), target);
      } else {
        std::memcpy(target, total, static_cast<size_t>(chunk.count * term.gradient.bytes_per_sample));
      }
    }
  }

 private:
  const VectorKernels<T>& kernels_;
};

// --- activations

struct ActivationKind {
  const char* name;
  float (*value)(float x);
  float (*slope)(float y);  // from the output
};
constexpr ActivationKind kActivations[] = {
    {"relu", [](float x) { return x < 0 ? 0.0F : x; }, [](float y) { return y > 0 ? 1.0F : 0.0F; }},
    {"tanh", [](float x) { return std::tanh(x); }, [](float y) { return 1 - y * y; }},
    // log(1 + e^x), without overflow.
    {"softplus", [](float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); },
     [](float y) { return -std::expm1(-y); }},
};

// Gradient of one input: written, or added to what is there.
template <typename T>
void put(T* target, float value, bool add) {
  *target = rounded_to<T>(add ? value_of(*target) + value : value);
}

template <typename T>
class Activation final : public Operation {
 public:
  Activation(const ActivationKind& kind, Value* input, Value* result) : kind_(kind) {
    inputs = {input};
    output = result;
    cheap = true;
    keeps = {result};
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    T* y = output->data.template at<T>(chunk);
    const int64_t stride = elements();
    // What fills up the last block stays zero, which softplus of zero is not.
    const int64_t channels = output->shape.channels;
    const int64_t lanes = output->layout == Layout::kBlocked ? stride / output->blocks / output->shape.pixels() : 1;
    for (int64_t i = 0; i < chunk.count * stride; ++i) {
      const bool real =
          lanes == 1 || i / (lanes * output->shape.pixels()) % output->blocks * lanes + i % lanes < channels;
      y[i] = rounded_to<T>(real ? kind_.value(value_of(x[i])) : 0.0F);
    }
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const T* y = output->data.template at<T>(chunk);
    const T* dy = output->final_gradient().template at<T>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    for (int64_t i = 0; i < chunk.count * elements(); ++i) {
      put(dx + i, value_of(dy[i]) * kind_.slope(value_of(y[i])), adds[0]);
    }
  }

 private:
  int64_t elements() const { return output->data.bytes_per_sample / static_cast<int64_t>(sizeof(T)); }
  const ActivationKind& kind_;
};

// --- pools

template <typename T>
class MaxPool final : public Operation {
 public:
  MaxPool(Value* input, Value* result, int64_t kernel, bool relu, const VectorKernels<T>& kernels)
      : shape_{input->shape.height, input->shape.width, kernel}, relu_(relu), kernels_(kernels) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
    winner_.bytes_per_sample = result->blocks * result->shape.pixels() * kernels.lanes;
    state = {&winner_};
    partial_.bytes_per_sample = input->data.bytes_per_sample;
    temporary = {&partial_};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    T* y = output->data.template at<T>(chunk);
    uint8_t* winner = winner_.at<uint8_t>(chunk);
    for (int64_t i = 0; i < output->planes(chunk); ++i) {
      kernels_.max_pool(x + i * input_plane(), shape_, relu_, y + i * output_plane(), winner + i * output_plane());
    }
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const T* dy = output->final_gradient().template at<T>(chunk);
    const uint8_t* winner = winner_.at<uint8_t>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    T* target = adds[0] ? partial_.at<T>(chunk) : dx;
    for (int64_t i = 0; i < output->planes(chunk); ++i) {
      kernels_.max_pool_backward(dy + i * output_plane(), winner + i * output_plane(), shape_,
                                 target + i * input_plane());
    }
    if (adds[0]) kernels_.add(dx, target, inputs[0]->planes(chunk) * inputs[0]->shape.pixels(), dx);
  }

 private:
  int64_t input_plane() const { return inputs[0]->shape.pixels() * kernels_.lanes; }
  int64_t output_plane() const { return output->shape.pixels() * kernels_.lanes; }
  PoolShape shape_;
  bool relu_;
  const VectorKernels<T>& kernels_;
  Buffer winner_, partial_;
};

template <typename T>
class AvgPool final : public Operation {
 public:
  AvgPool(Value* input, Value* result, int64_t kernel, int lanes) : kernel_(kernel), lanes_(lanes) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    T* y = output->data.template at<T>(chunk);
    for_windows(chunk, [&](int64_t to, auto&& window) {
      float sum = 0;
      window([&](int64_t from) { sum += value_of(x[from]); });
      y[to] = rounded_to<T>(sum * share());
    });
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const T* dy = output->final_gradient().template at<T>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    for_windows(chunk, [&](int64_t from, auto&& window) {
      const float gradient = value_of(dy[from]) * share();
      window([&](int64_t to) { put(dx + to, gradient, adds[0]); });
    });
  }

 private:
  float share() const { return 1.0F / static_cast<float>(kernel_ * kernel_); }
  template <typename Body>
  void for_windows(const Chunk& chunk, const Body& body) {
    const Shape &in = inputs[0]->shape, &out = output->shape;
    int64_t to = 0;
    for (int64_t plane = 0; plane < output->planes(chunk); ++plane) {
      for (int64_t row = 0; row < out.height; ++row) {
        for (int64_t column = 0; column < out.width; ++column) {
          for (int64_t lane = 0; lane < lanes_; ++lane, ++to) {
            body(to, [&](const auto& element) {
              for (int64_t i = 0; i < kernel_; ++i) {
                for (int64_t j = 0; j < kernel_; ++j) {
                  const int64_t pixel = (row * kernel_ + i) * in.width + column * kernel_ + j;
                  element((plane * in.pixels() + pixel) * lanes_ + lane);
                }
              }
            });
          }
        }
      }
    }
  }
  int64_t kernel_;
  int lanes_;
};

template <typename T>
class GlobalAvgPool final : public Operation {
 public:
  GlobalAvgPool(Value* input, Value* result, int lanes) : lanes_(lanes) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    float* y = output->data.at<float>(chunk);
    const Shape& shape = inputs[0]->shape;
    for (int64_t i = 0; i < chunk.count * shape.channels; ++i) {
      const T* from = x + i / shape.channels * stride() + at(i % shape.channels);
      float sum = 0;
      for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) sum += value_of(from[pixel * lanes_]);
      y[i] = sum / static_cast<float>(shape.pixels());
    }
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const float* dy = output->final_gradient().at<float>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    const Shape& shape = inputs[0]->shape;
    if (!adds[0]) std::memset(static_cast<void*>(dx), 0, static_cast<size_t>(chunk.count * stride()) * sizeof(T));
    for (int64_t i = 0; i < chunk.count * shape.channels; ++i) {
      T* to = dx + i / shape.channels * stride() + at(i % shape.channels);
      const float gradient = dy[i] / static_cast<float>(shape.pixels());
      for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) put(to + pixel * lanes_, gradient, adds[0]);
    }
  }

 private:
  int64_t stride() const { return elements_of(*inputs[0], lanes_); }
  int64_t at(int64_t channel) const { return Blocked{inputs[0]->shape.pixels(), lanes_}(channel, 0); }
  int lanes_;
};

class FlattenRows final : public Operation {
 public:
  FlattenRows(Value* input, Value* result) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    std::copy_n(inputs[0]->data.at<float>(chunk), chunk.count * output->shape.volume(), output->data.at<float>(chunk));
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const float* dy = output->final_gradient().at<float>(chunk);
    float* dx = inputs[0]->gradient.at<float>(chunk);
    for (int64_t i = 0; i < chunk.count * output->shape.volume(); ++i) put(dx + i, dy[i], adds[0]);
  }
};

template <typename T>
class Flatten final : public Operation {
 public:
  Flatten(Value* input, Value* result, int lanes) : lanes_(lanes) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    float* y = output->data.at<float>(chunk);
    for_elements(chunk, [&](int64_t row, int64_t blocked) { y[row] = value_of(x[blocked]); });
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const float* dy = output->final_gradient().at<float>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    if (!adds[0]) {
      std::memset(static_cast<void*>(dx), 0, static_cast<size_t>(chunk.count * inputs[0]->gradient.bytes_per_sample));
    }
    for_elements(chunk, [&](int64_t row, int64_t blocked) { put(dx + blocked, dy[row], adds[0]); });
  }

 private:
  template <typename Body>
  void for_elements(const Chunk& chunk, const Body& body) {
    const Shape& shape = inputs[0]->shape;
    const Blocked at{shape.pixels(), lanes_};
    const int64_t stride = elements_of(*inputs[0], lanes_);
    int64_t row = 0;
    for (int64_t i = 0; i < chunk.count; ++i) {
      for (int64_t channel = 0; channel < shape.channels; ++channel) {
        for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) body(row++, i * stride + at(channel, pixel));
      }
    }
  }
  int lanes_;
};

template <typename T>
class Dropout final : public Operation {
 public:
  Dropout(Value* input, Value* result, const DropoutOptions& options, int lanes)
      : options_(options),
        threshold_(static_cast<uint64_t>(std::ceil(options.p * 0x1.0p32))),
        scale_(static_cast<float>(1 / (1 - options.p))),
        lanes_(lanes) {
    inputs = {input};
    output = result;
    cheap = true;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass& pass) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    T* y = output->data.template at<T>(chunk);
    if (!pass.training) {
      std::memcpy(static_cast<void*>(y), x, static_cast<size_t>(chunk.count * output->data.bytes_per_sample));
      return;
    }
    for_elements(chunk, pass, [&](int64_t at, float mask) { y[at] = rounded_to<T>(value_of(x[at]) * mask); });
  }
  void backward(const Chunk& chunk, const Pass& pass) override {
    const T* dy = output->final_gradient().template at<T>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    for_elements(chunk, pass, [&](int64_t at, float mask) { put(dx + at, value_of(dy[at]) * mask, adds[0]); });
  }

 private:
  // In the logical order, by which the stream counts; what fills up blocks is zero as it was.
  template <typename Body>
  void for_elements(const Chunk& chunk, const Pass& pass, const Body& body) {
    const uint64_t key = models::dropout_key(options_.seed, options_.rank, pass.step, options_.layer);
    const Shape& shape = output->shape;
    const bool blocked = output->layout == Layout::kBlocked;
    const Blocked at{shape.pixels(), lanes_};
    const int64_t stride = elements_of(*output, lanes_), volume = shape.volume();
    if (blocked) {
      // Filled up lanes carry zeros in, and have to carry zeros out.
      for (int64_t i = 0; i < chunk.count * stride; ++i) body(i, 0);
    }
    std::array<uint32_t, 4> words{};
    uint64_t known = ~uint64_t{0};
    for (int64_t i = 0; i < chunk.count * volume; ++i) {
      const auto number = static_cast<uint64_t>(chunk.first * volume + i);
      if (number / 4 != known) words = philox(key, known = number / 4, 0);
      const float mask = words[number % 4] >= threshold_ ? scale_ : 0.0F;
      const int64_t inside = i % volume;
      body(blocked ? i / volume * stride + at(inside / shape.pixels(), inside % shape.pixels()) : i, mask);
    }
  }
  DropoutOptions options_;
  uint64_t threshold_;
  float scale_;
  int lanes_;
};

}  // namespace

std::unique_ptr<Operation> make_flatten_rows(Value* input, Value* output) {
  return std::make_unique<FlattenRows>(input, output);
}

template <typename T>
std::unique_ptr<Operation> make_input(Value* output, const Source& source, int lanes) {
  return std::make_unique<Input<T>>(output, source, lanes);
}

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

template <typename T>
std::unique_ptr<Operation> make_sum(Value* a, Value* b, Value* output, const VectorKernels<T>& kernels) {
  return std::make_unique<Sum<T>>(a, b, output, kernels);
}

template <typename T>
std::unique_ptr<Operation> make_activation(const std::string& kind, Value* input, Value* output) {
  for (const ActivationKind& row : kActivations) {
    if (row.name == kind) return std::make_unique<Activation<T>>(row, input, output);
  }
  MLBENCH_CHECK(false, "activation '" + kind + "'");
  return nullptr;
}

template <typename T>
std::unique_ptr<Operation> make_max_pool(Value* input, Value* output, int64_t kernel, bool relu,
                                         const VectorKernels<T>& kernels) {
  MLBENCH_CHECK(kernel * kernel < 255, "the number of a winner is one byte");
  return std::make_unique<MaxPool<T>>(input, output, kernel, relu, kernels);
}

template <typename T>
std::unique_ptr<Operation> make_avg_pool(Value* input, Value* output, int64_t kernel, int lanes) {
  return std::make_unique<AvgPool<T>>(input, output, kernel, lanes);
}

template <typename T>
std::unique_ptr<Operation> make_global_avg_pool(Value* input, Value* output, int lanes) {
  return std::make_unique<GlobalAvgPool<T>>(input, output, lanes);
}

template <typename T>
std::unique_ptr<Operation> make_flatten(Value* input, Value* output, int lanes) {
  return std::make_unique<Flatten<T>>(input, output, lanes);
}

template <typename T>
std::unique_ptr<Operation> make_dropout(Value* input, Value* output, const DropoutOptions& options, int lanes) {
  return std::make_unique<Dropout<T>>(input, output, options, lanes);
}

#define MLBENCH_FOR_TYPE(T)                                                                                      \
  template std::unique_ptr<Operation> make_input<T>(Value*, const Source&, int);                                 \
  template std::unique_ptr<Operation> make_batch_statistics<T>(Value*, const Value*, std::shared_ptr<NormState>, \
                                                               const VectorKernels<T>&);                         \
  template std::unique_ptr<Operation> make_normalise<T>(Value*, Value*, Value*, std::shared_ptr<NormState>,      \
                                                        const VectorKernels<T>&);                                \
  template std::unique_ptr<Operation> make_sum<T>(Value*, Value*, Value*, const VectorKernels<T>&);              \
  template std::unique_ptr<Operation> make_activation<T>(const std::string&, Value*, Value*);                    \
  template std::unique_ptr<Operation> make_max_pool<T>(Value*, Value*, int64_t, bool, const VectorKernels<T>&);  \
  template std::unique_ptr<Operation> make_avg_pool<T>(Value*, Value*, int64_t, int);                            \
  template std::unique_ptr<Operation> make_global_avg_pool<T>(Value*, Value*, int);                              \
  template std::unique_ptr<Operation> make_flatten<T>(Value*, Value*, int);                                      \
  template std::unique_ptr<Operation> make_dropout<T>(Value*, Value*, const DropoutOptions&, int);
MLBENCH_FOR_TYPE(float)
MLBENCH_FOR_TYPE(BFloat16)
#undef MLBENCH_FOR_TYPE

}  // namespace mlbench::framework::onednn_framework
