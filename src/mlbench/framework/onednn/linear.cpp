#include <memory>
#include <string>

#include "mlbench/framework/onednn/bfloat16.h"
#include "mlbench/framework/onednn/operations.h"
#include "mlbench/framework/onednn/products.h"

namespace mlbench::framework::onednn_framework {

namespace {

template <typename T>
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
    flops = 2.0 * static_cast<double>(weight.count * positions());
    explanation = std::string("LibTorch's products, ") + kPrecision<T>;
  }

  void forward(const Chunk& all, const Pass& pass) override {
    const int64_t in = inputs[0]->shape.channels, out = output->shape.channels, rows = all.count * positions();
    const Share columns = share_of(out, all.thread, pass.threads, kGrain);
    if (columns.count() == 0) return;
    const float* x = inputs[0]->data.template at<float>({all.thread, 0, all.count});
    float* y = output->data.at<float>({all.thread, 0, all.count}) + columns.begin;
    multiply<T>('N', 'T', rows, columns.count(), in, x, in, weight_.value + columns.begin * in, in, false, y, out);
    if (bias_.value == nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns.count(); ++j) y[i * out + j] += bias_.value[columns.begin + j];
    }
  }

  void backward(const Chunk& all, const Pass& pass) override {
    const int64_t in = inputs[0]->shape.channels, out = output->shape.channels, rows = all.count * positions();
    const float* x = inputs[0]->data.template at<float>({all.thread, 0, all.count});
    const float* dy = output->final_gradient().at<float>({all.thread, 0, all.count});
    if (const Share share = share_of(out, all.thread, pass.threads, kGrain); share.count() > 0) {
      multiply<T>('T', 'N', share.count(), in, rows, dy + share.begin, out, x, in, pass.accumulate,
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
    float* dx = inputs[0]->gradient.template at<float>({all.thread, 0, all.count});
    multiply<T>('N', 'N', rows, columns.count(), out, dy, out, weight_.value + columns.begin, in, adds[0],
                dx + columns.begin, in);
  }

 private:
  static constexpr int64_t kGrain = 16;
  int64_t positions() const { return inputs[0]->shape.height; }
  Parameter weight_, bias_;
};

}  // namespace

template <typename T>
std::unique_ptr<Operation> make_linear(Value* input, Value* output, const Parameter& weight, const Parameter& bias) {
  return std::make_unique<Linear<T>>(input, output, weight, bias);
}
template std::unique_ptr<Operation> make_linear<float>(Value*, Value*, const Parameter&, const Parameter&);
template std::unique_ptr<Operation> make_linear<BFloat16>(Value*, Value*, const Parameter&, const Parameter&);

}  // namespace mlbench::framework::onednn_framework
