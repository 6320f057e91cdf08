#include "mlbench/framework/native/tape/operations.h"

#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/tape/elements.h"

namespace mlbench::framework::native_framework {

namespace {

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

template <typename T>
class GlobalAvgMaxPool final : public Operation {
 public:
  GlobalAvgMaxPool(Value* input, Value* result, int lanes) : lanes_(lanes) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
    winner_.bytes_per_sample = input->shape.channels * static_cast<int64_t>(sizeof(int32_t));
    state = {&winner_};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const Shape& shape = inputs[0]->shape;
    for_planes(chunk, [&](int64_t first, int64_t mean_at, int64_t max_at, int32_t& winner) {
      const T* x = inputs[0]->data.template at<T>(chunk) + first;
      float sum = 0;
      winner = 0;
      for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) {
        const float value = value_of(x[pixel * lanes_]);
        sum += value;
        if (value > value_of(x[winner * lanes_])) winner = static_cast<int32_t>(pixel);
      }
      float* y = output->data.at<float>(chunk);
      y[mean_at] = sum / static_cast<float>(shape.pixels());
      y[max_at] = value_of(x[winner * lanes_]);
    });
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const Shape& shape = inputs[0]->shape;
    const float* dy = output->final_gradient().at<float>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    const int64_t elements = chunk.count * elements_of(*inputs[0], lanes_);
    if (!adds[0]) std::memset(static_cast<void*>(dx), 0, static_cast<size_t>(elements) * sizeof(T));
    for_planes(chunk, [&](int64_t first, int64_t mean_at, int64_t max_at, const int32_t& winner) {
      const float share = dy[mean_at] / static_cast<float>(shape.pixels());
      for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) {
        put(dx + first + pixel * lanes_, pixel == winner ? share + dy[max_at] : share, adds[0]);
      }
    });
  }

 private:
  // Calls `body` for each plane of each sample. It gets the index of the plane's first pixel, those of its mean and its
  // maximum in the output, and the place of its winner.
  template <typename Body>
  void for_planes(const Chunk& chunk, const Body& body) {
    const Shape& shape = inputs[0]->shape;
    const Blocked at{shape.pixels(), lanes_};
    int32_t* winner = winner_.at<int32_t>(chunk);
    for (int64_t sample = 0; sample < chunk.count; ++sample) {
      for (int64_t channel = 0; channel < shape.channels; ++channel) {
        const int64_t mean_at = 2 * sample * shape.channels + channel;
        body(sample * elements_of(*inputs[0], lanes_) + at(channel, 0), mean_at, mean_at + shape.channels,
             winner[sample * shape.channels + channel]);
      }
    }
  }
  int lanes_;
  Buffer winner_;
};

}  // namespace

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
std::unique_ptr<Operation> make_global_avg_max_pool(Value* input, Value* output, int lanes) {
  return std::make_unique<GlobalAvgMaxPool<T>>(input, output, lanes);
}

#define MLBENCH_FOR_TYPE(T)                                                                                     \
  template std::unique_ptr<Operation> make_max_pool<T>(Value*, Value*, int64_t, bool, const VectorKernels<T>&); \
  template std::unique_ptr<Operation> make_avg_pool<T>(Value*, Value*, int64_t, int);                           \
  template std::unique_ptr<Operation> make_global_avg_pool<T>(Value*, Value*, int);                             \
  template std::unique_ptr<Operation> make_global_avg_max_pool<T>(Value*, Value*, int);
MLBENCH_FOR_TYPE(float)
MLBENCH_FOR_TYPE(BFloat16)
#undef MLBENCH_FOR_TYPE

}  // namespace mlbench::framework::native_framework
