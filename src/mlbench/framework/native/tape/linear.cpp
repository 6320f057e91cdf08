#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "mlbench/framework/native/tape/operations.h"

namespace mlbench::framework::native_framework {

namespace {

// Computes c = a b, or with `add` c += a b, where c is [rows, columns], a is [rows, inner] and b is [inner, columns].
// Each matrix is row-major with a stride from row to row. 'T' means that the factor's transpose is stored. The product
// is LibTorch's: oneDNN 2.6 initialises its own through std::call_once on symbols that LibTorch, which contains a newer
// oneDNN, exports under the same names. Whichever library is loaded second is then broken.
void multiply(char transpose_a, char transpose_b, int64_t rows, int64_t columns, int64_t inner, const float* a,
              int64_t a_stride, const float* b, int64_t b_stride, bool add, float* c, int64_t c_stride) {
  const auto view = [](const float* values, int64_t height, int64_t width, int64_t stride, char transpose) {
    const std::array<int64_t, 2> strides = {transpose == 'T' ? 1 : stride, transpose == 'T' ? stride : 1};
    // from_blob takes a writable pointer, but nothing writes to a factor.
    return at::from_blob(const_cast<float*>(values), {height, width}, strides, at::kFloat);
  };
  at::Tensor product = view(c, rows, columns, c_stride, 'N');
  const at::Tensor left = view(a, rows, inner, a_stride, transpose_a);
  const at::Tensor right = view(b, inner, columns, b_stride, transpose_b);
  if (add) {
    product.addmm_(left, right);
  } else {
    at::mm_out(product, left, right);
  }
}

class Linear final : public Operation {
 public:
  Linear(Value* input, Value* result, const Parameter& weight, const Parameter& bias) : weight_(weight), bias_(bias) {
    inputs = {input};
    output = result;
    by_batch = true;
    keeps = {input};
    if (input->wants_gradient) writes_gradient_of = {input};
    if (bias.value != nullptr) parameters.push_back(bias);
    parameters.push_back(weight);
    flops = 2.0 * static_cast<double>(weight.count);
    explanation = "LibTorch's products, float32";
  }

  void forward(const Chunk& all, const Pass& pass) override {
    const int64_t in = inputs[0]->shape.channels, out = output->shape.channels, rows = all.count;
    const Share columns = share_of(out, all.thread, pass.threads, kGrain);
    if (columns.count() == 0) return;
    const float* x = inputs[0]->data.at<float>({all.thread, 0, all.count});
    float* y = output->data.at<float>({all.thread, 0, all.count}) + columns.begin;
    multiply('N', 'T', rows, columns.count(), in, x, in, weight_.value + columns.begin * in, in, false, y, out);
    if (bias_.value == nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns.count(); ++j) y[i * out + j] += bias_.value[columns.begin + j];
    }
  }

  void backward(const Chunk& all, const Pass& pass) override {
    const int64_t in = inputs[0]->shape.channels, out = output->shape.channels, rows = all.count;
    const float* x = inputs[0]->data.at<float>({all.thread, 0, all.count});
    const float* dy = output->final_gradient().at<float>({all.thread, 0, all.count});
    if (const Share share = share_of(out, all.thread, pass.threads, kGrain); share.count() > 0) {
      multiply('T', 'N', share.count(), in, rows, dy + share.begin, out, x, in, pass.accumulate,
               weight_.gradient + share.begin * in, in);
      for (int64_t j = share.begin; bias_.value != nullptr && j < share.end; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i) sum += dy[i * out + j];
        bias_.gradient[j] = static_cast<float>(sum) + (pass.accumulate ? bias_.gradient[j] : 0.0F);
      }
    }
    if (writes_gradient_of.empty()) return;
    const Share columns = share_of(in, all.thread, pass.threads, kGrain);
    if (columns.count() == 0) return;
    float* dx = inputs[0]->gradient.at<float>({all.thread, 0, all.count});
    multiply('N', 'N', rows, columns.count(), out, dy, out, weight_.value + columns.begin, in, adds[0],
             dx + columns.begin, in);
  }

 private:
  static constexpr int64_t kGrain = 16;
  Parameter weight_, bias_;
};

}  // namespace

std::unique_ptr<Operation> make_linear(Value* input, Value* output, const Parameter& weight, const Parameter& bias) {
  return std::make_unique<Linear>(input, output, weight, bias);
}

}  // namespace mlbench::framework::native_framework
