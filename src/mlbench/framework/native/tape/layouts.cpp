#include "mlbench/framework/native/tape/operations.h"

#include <algorithm>
#include <cstring>

#include "mlbench/framework/native/tape/elements.h"

namespace mlbench::framework::native_framework {

namespace {

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

}  // namespace

template <typename T>
std::unique_ptr<Operation> make_input(Value* output, const Source& source, int lanes) {
  return std::make_unique<Input<T>>(output, source, lanes);
}

template <typename T>
std::unique_ptr<Operation> make_flatten(Value* input, Value* output, int lanes) {
  return std::make_unique<Flatten<T>>(input, output, lanes);
}

#define MLBENCH_FOR_TYPE(T)                                                      \
  template std::unique_ptr<Operation> make_input<T>(Value*, const Source&, int); \
  template std::unique_ptr<Operation> make_flatten<T>(Value*, Value*, int);
MLBENCH_FOR_TYPE(float)
MLBENCH_FOR_TYPE(BFloat16)
#undef MLBENCH_FOR_TYPE

}  // namespace mlbench::framework::native_framework
