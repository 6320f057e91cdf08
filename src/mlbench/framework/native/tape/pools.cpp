#include "mlbench/framework/native/tape/operations.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/tape/elements.h"

namespace mlbench::framework::native_framework {

namespace {

template <typename T>
class MaxPool final : public Operation {
 public:
  MaxPool(Value* input, Value* result, const PoolShape& shape, bool relu, const VectorKernels<T>& kernels)
      : shape_(shape), relu_(relu), kernels_(kernels) {
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

// The windows of a pool of means along one axis.
struct PoolAxis {
  struct Window {
    int64_t begin = 0, end = 0;  // its pixels of the image
    float share = 0;             // the weight of each
  };
  struct Range {
    int64_t begin = 0, end = 0;
  };
  std::vector<Window> windows;
  std::vector<Range> of_pixel;  // the windows that hold each pixel
};

PoolAxis make_axis(int64_t pixels, std::vector<PoolAxis::Window> windows) {
  PoolAxis axis{std::move(windows), std::vector<PoolAxis::Range>(static_cast<size_t>(pixels))};
  for (int64_t number = 0; number < std::ssize(axis.windows); ++number) {
    const PoolAxis::Window& window = axis.windows[static_cast<size_t>(number)];
    for (int64_t pixel = window.begin; pixel < window.end; ++pixel) {
      PoolAxis::Range& holders = axis.of_pixel[static_cast<size_t>(pixel)];
      if (holders.end == 0) holders.begin = number;
      holders.end = number + 1;
    }
  }
  return axis;
}

PoolAxis sliding_axis(int64_t pixels, int64_t outputs, const PoolShape& shape) {
  std::vector<PoolAxis::Window> windows;
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t first = i * shape.stride - shape.padding;
    windows.push_back(
        {std::max<int64_t>(first, 0), std::min(first + shape.kernel, pixels), 1.0F / static_cast<float>(shape.kernel)});
  }
  return make_axis(pixels, std::move(windows));
}

PoolAxis adaptive_axis(int64_t pixels, int64_t outputs) {
  std::vector<PoolAxis::Window> windows;
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t begin = i * pixels / outputs, end = ((i + 1) * pixels + outputs - 1) / outputs;
    windows.push_back({begin, end, 1.0F / static_cast<float>(end - begin)});
  }
  return make_axis(pixels, std::move(windows));
}

template <typename T>
class AvgPool final : public Operation {
 public:
  AvgPool(Value* input, Value* result, PoolAxis rows, PoolAxis columns, int lanes)
      : rows_(std::move(rows)), columns_(std::move(columns)), lanes_(lanes) {
    inputs = {input};
    output = result;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    const T* x = inputs[0]->data.template at<T>(chunk);
    T* y = output->data.template at<T>(chunk);
    const int64_t width = inputs[0]->shape.width;
    for (int64_t plane = 0; plane < output->planes(chunk); ++plane, x += inputs[0]->shape.pixels() * lanes_) {
      for (const PoolAxis::Window& row : rows_.windows) {
        for (const PoolAxis::Window& column : columns_.windows) {
          for (int64_t lane = 0; lane < lanes_; ++lane) {
            float sum = 0;
            for (int64_t i = row.begin; i < row.end; ++i) {
              for (int64_t j = column.begin; j < column.end; ++j) sum += value_of(x[(i * width + j) * lanes_ + lane]);
            }
            *y++ = rounded_to<T>(sum * row.share * column.share);
          }
        }
      }
    }
  }
  void backward(const Chunk& chunk, const Pass&) override {
    const T* dy = output->final_gradient().template at<T>(chunk);
    T* dx = inputs[0]->gradient.template at<T>(chunk);
    for (int64_t plane = 0; plane < output->planes(chunk); ++plane, dy += output->shape.pixels() * lanes_) {
      for (const PoolAxis::Range& rows : rows_.of_pixel) {
        for (const PoolAxis::Range& columns : columns_.of_pixel) {
          for (int64_t lane = 0; lane < lanes_; ++lane) put(dx++, gradient(dy + lane, rows, columns), adds[0]);
        }
      }
    }
  }

 private:
  // The gradient of a pixel that these windows hold.
  float gradient(const T* dy, const PoolAxis::Range& rows, const PoolAxis::Range& columns) const {
    float sum = 0;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        sum += value_of(dy[(i * output->shape.width + j) * lanes_]) * rows_.windows[static_cast<size_t>(i)].share *
               columns_.windows[static_cast<size_t>(j)].share;
      }
    }
    return sum;
  }
  PoolAxis rows_, columns_;
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
std::unique_ptr<Operation> make_max_pool(Value* input, Value* output, const PoolShape& shape, bool relu,
                                         const VectorKernels<T>& kernels) {
  MLBENCH_CHECK(shape.kernel * shape.kernel < 255, "the number of a winner is one byte");
  return std::make_unique<MaxPool<T>>(input, output, shape, relu, kernels);
}

template <typename T>
std::unique_ptr<Operation> make_avg_pool(Value* input, Value* output, const PoolShape& shape, int lanes) {
  return std::make_unique<AvgPool<T>>(input, output, sliding_axis(shape.height, output->shape.height, shape),
                                      sliding_axis(shape.width, output->shape.width, shape), lanes);
}

template <typename T>
std::unique_ptr<Operation> make_adaptive_avg_pool(Value* input, Value* output, int lanes) {
  return std::make_unique<AvgPool<T>>(input, output, adaptive_axis(input->shape.height, output->shape.height),
                                      adaptive_axis(input->shape.width, output->shape.width), lanes);
}

template <typename T>
std::unique_ptr<Operation> make_global_avg_pool(Value* input, Value* output, int lanes) {
  return std::make_unique<GlobalAvgPool<T>>(input, output, lanes);
}

template <typename T>
std::unique_ptr<Operation> make_global_avg_max_pool(Value* input, Value* output, int lanes) {
  return std::make_unique<GlobalAvgMaxPool<T>>(input, output, lanes);
}

#define MLBENCH_FOR_TYPE(T)                                                                    \
  template std::unique_ptr<Operation> make_max_pool<T>(Value*, Value*, const PoolShape&, bool, \
                                                       const VectorKernels<T>&);               \
  template std::unique_ptr<Operation> make_avg_pool<T>(Value*, Value*, const PoolShape&, int); \
  template std::unique_ptr<Operation> make_adaptive_avg_pool<T>(Value*, Value*, int);          \
  template std::unique_ptr<Operation> make_global_avg_pool<T>(Value*, Value*, int);            \
  template std::unique_ptr<Operation> make_global_avg_max_pool<T>(Value*, Value*, int);
MLBENCH_FOR_TYPE(float)
MLBENCH_FOR_TYPE(BFloat16)
#undef MLBENCH_FOR_TYPE

}  // namespace mlbench::framework::native_framework
