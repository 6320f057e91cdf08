#include "mlbench/framework/native/tape/operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/framework/native/tape/elements.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::native_framework {

namespace {

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
  // Writes only to terms that could not alias the sum's gradient.
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
  float (*slope)(float y);  // the derivative, from the output
};
constexpr ActivationKind kActivations[] = {
    {"relu", [](float x) { return x < 0 ? 0.0F : x; }, [](float y) { return y > 0 ? 1.0F : 0.0F; }},
    // This is log(1 + e^x), without overflow.
    {"softplus", [](float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); },
     [](float y) { return -std::expm1(-y); }},
};

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
    // The padding of the last block stays zero, while softplus of zero is not zero.
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

template <typename T>
class Relu final : public Operation {
 public:
  Relu(Value* input, Value* result, const VectorKernels<T>& kernels) : kernels_(kernels) {
    inputs = {input};
    output = result;
    cheap = true;
    keeps = {result};
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass&) override {
    kernels_.relu(inputs[0]->data.template at<T>(chunk), rows(chunk), output->data.template at<T>(chunk));
  }
  void backward(const Chunk& chunk, const Pass&) override {
    kernels_.relu_backward(output->data.template at<T>(chunk), output->final_gradient().template at<T>(chunk),
                           rows(chunk), adds[0], inputs[0]->gradient.template at<T>(chunk));
  }

 private:
  int64_t rows(const Chunk& chunk) const { return output->planes(chunk) * output->shape.pixels(); }
  const VectorKernels<T>& kernels_;
};

class Dropout final : public Operation {
 public:
  Dropout(Value* input, Value* result, const DropoutOptions& options)
      : options_(options),
        threshold_(static_cast<uint64_t>(std::ceil(options.p * 0x1.0p32))),
        scale_(static_cast<float>(1 / (1 - options.p))) {
    inputs = {input};
    output = result;
    cheap = true;
    writes_gradient_of = {input};
  }
  void forward(const Chunk& chunk, const Pass& pass) override {
    const float* x = inputs[0]->data.at<float>(chunk);
    float* y = output->data.at<float>(chunk);
    if (!pass.training) {
      std::memcpy(y, x, static_cast<size_t>(chunk.count * output->data.bytes_per_sample));
      return;
    }
    for_elements(chunk, pass, [&](int64_t at, float mask) { y[at] = x[at] * mask; });
  }
  void backward(const Chunk& chunk, const Pass& pass) override {
    const float* dy = output->final_gradient().at<float>(chunk);
    float* dx = inputs[0]->gradient.at<float>(chunk);
    for_elements(chunk, pass, [&](int64_t at, float mask) { put(dx + at, dy[at] * mask, adds[0]); });
  }

 private:
  template <typename Body>
  void for_elements(const Chunk& chunk, const Pass& pass, const Body& body) {
    const uint64_t key = models::dropout_key(options_.seed, options_.rank, pass.step, options_.layer, pass.micro_batch);
    const int64_t volume = output->shape.volume();
    std::array<uint32_t, 4> words{};
    uint64_t known = ~uint64_t{0};
    for (int64_t i = 0; i < chunk.count * volume; ++i) {
      const auto number = static_cast<uint64_t>(chunk.first * volume + i);
      if (number / 4 != known) words = philox(key, known = number / 4, 0);
      body(i, words[number % 4] >= threshold_ ? scale_ : 0.0F);
    }
  }
  DropoutOptions options_;
  uint64_t threshold_;
  float scale_;
};

}  // namespace

template <typename T>
std::unique_ptr<Operation> make_sum(Value* a, Value* b, Value* output, const VectorKernels<T>& kernels) {
  return std::make_unique<Sum<T>>(a, b, output, kernels);
}

template <typename T>
std::unique_ptr<Operation> make_relu(Value* input, Value* output, const VectorKernels<T>& kernels) {
  return std::make_unique<Relu<T>>(input, output, kernels);
}

template <typename T>
std::unique_ptr<Operation> make_activation(const std::string& kind, Value* input, Value* output) {
  for (const ActivationKind& row : kActivations) {
    if (row.name == kind) return std::make_unique<Activation<T>>(row, input, output);
  }
  MLBENCH_CHECK(false, "activation '" + kind + "'");
  return nullptr;
}

std::unique_ptr<Operation> make_dropout(Value* input, Value* output, const DropoutOptions& options) {
  return std::make_unique<Dropout>(input, output, options);
}

#define MLBENCH_FOR_TYPE(T)                                                                         \
  template std::unique_ptr<Operation> make_sum<T>(Value*, Value*, Value*, const VectorKernels<T>&); \
  template std::unique_ptr<Operation> make_relu<T>(Value*, Value*, const VectorKernels<T>&);        \
  template std::unique_ptr<Operation> make_activation<T>(const std::string&, Value*, Value*);
MLBENCH_FOR_TYPE(float)
MLBENCH_FOR_TYPE(BFloat16)
#undef MLBENCH_FOR_TYPE

}  // namespace mlbench::framework::native_framework
