#include "mlbench/framework/native/tape/winograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "mlbench/framework/native/tape/memory_plan.h"
#include "mlbench/framework/native/tape/profile.h"

namespace mlbench::framework::native_framework {

namespace {

class WinogradConvolution final : public Operation {
 public:
  WinogradConvolution(Value* input, Value* result, const ConvolutionOptions& options, InstructionSet set,
                      const VectorKernels<float>& kernels, int threads)
      : options_(options),
        kernels_(kernels),
        winograd_(winograd_kernels(set, kernels.lanes)),
        threads_(threads),
        memory_((2 + threads) * packed_elements(input->shape, result->shape) * int64_t{sizeof(float)}) {
    describe_convolution(input, result, options, *this);
    scratch_.bytes_per_sample = winograd_.scratch_elements(shape_of(1)) * int64_t{sizeof(float)};
    temporary = {&scratch_};
    sums_.resize(static_cast<size_t>(threads));
    explanation =
        fmt::format("forward, data, weights winograd F(4x4,3x3), {}; winograd: {}", name_of(set), options.why);
  }

  void prepare(const std::vector<int64_t>& counts) override {
    for (const int64_t count : counts) most_samples_ = std::max(most_samples_, count);
  }

  void pack(int thread, const Pass& pass) override {
    const Share share = share_of(vectors(), thread, threads_);
    const int64_t out = output->shape.channels, in = inputs[0]->shape.channels;
    winograd_.pack_weight(options_.weight.value, out, in, false, share.begin, share.end, forward_weight());
    if (pass.training && !writes_gradient_of.empty()) {
      winograd_.pack_weight(options_.weight.value, out, in, true, share.begin, share.end, backward_weight());
    }
    sums_[static_cast<size_t>(thread)] = {};
  }

  void forward(const Chunk& chunk, const Pass&) override {
    winograd_.convolve(inputs[0]->data.at<float>(chunk), shape_of(chunk.count), forward_weight(), options_.bias.value,
                       false, scratch_.at<float>(chunk), output->data.at<float>(chunk));
  }

  void backward(const Chunk& chunk, const Pass&) override {
    const float* dy = output->final_gradient().at<float>(chunk);
    float* scratch = scratch_.at<float>(chunk);
    add_sums(chunk, dy, scratch);
    if (writes_gradient_of.empty()) return;
    WinogradShape back = shape_of(chunk.count);
    std::swap(back.in, back.out);
    winograd_.convolve(dy, back, backward_weight(), nullptr, adds[0], scratch, inputs[0]->gradient.at<float>(chunk));
  }

  void finish_backward(int thread, const Pass& pass) override {
    std::vector<const float*> parts;
    for (int other = 0; other < threads_; ++other) {
      if (!sums_[static_cast<size_t>(other)].empty) parts.push_back(weight_sums(other));
    }
    const Share share = share_of(vectors(), thread, threads_);
    winograd_.unpack_gradient(parts.data(), static_cast<int>(parts.size()), output->shape.channels,
                              inputs[0]->shape.channels, share.begin, share.end, pass.accumulate,
                              options_.weight.gradient);
    if (options_.bias.value == nullptr || thread != 0) return;
    for (int64_t channel = 0; channel < options_.bias.count; ++channel) {
      double sum = 0;
      for (const Sums& part : sums_) {
        if (!part.empty) sum += part.bias[static_cast<size_t>(channel)];
      }
      float& gradient = options_.bias.gradient[channel];
      gradient = static_cast<float>(sum) + (pass.accumulate ? gradient : 0.0F);
    }
  }

  Floor measure_floor() override {
    if (most_samples_ == 0) return {};
    const WinogradShape shape = shape_of(most_samples_);
    const int64_t pixels = shape.samples * shape.height * shape.width;
    // The values are neither zero nor denormal.
    std::vector<float> x(static_cast<size_t>(pixels * shape.in), 0.25F);
    std::vector<float> y(static_cast<size_t>(pixels * shape.out), 0.25F);
    std::vector<float> packed(static_cast<size_t>(elements()), 0.25F), sums = packed;
    const HugePages memory(winograd_.scratch_elements(shape) * int64_t{sizeof(float)});
    auto* scratch = reinterpret_cast<float*>(memory.get());
    WinogradShape back = shape;
    std::swap(back.in, back.out);
    const auto best = [&](const auto& work) { return fastest_call_s(work) / static_cast<double>(shape.samples); };
    Floor floor;
    floor.forward_s =
        best([&] { winograd_.convolve(x.data(), shape, packed.data(), nullptr, false, scratch, y.data()); });
    floor.backward_s = best([&] { winograd_.weight_sums(x.data(), y.data(), shape, scratch, sums.data()); });
    if (!writes_gradient_of.empty()) {
      floor.backward_s +=
          best([&] { winograd_.convolve(y.data(), back, packed.data(), nullptr, false, scratch, x.data()); });
    }
    return floor;
  }

 private:
  struct Sums {  // what is summed over the chunks of one thread, beside weight_sums()
    bool empty = true;
    std::vector<double> bias, squares;  // moments() gives squares, too, which nobody reads
  };

  int64_t packed_elements(const Shape& in, const Shape& out) const {
    return winograd_.points * in.channels * out.channels;
  }
  int64_t elements() const { return packed_elements(inputs[0]->shape, output->shape); }
  int64_t vectors() const { return inputs[0]->shape.channels * output->shape.channels / kernels_.lanes; }
  float* forward_weight() const { return reinterpret_cast<float*>(memory_.get()); }
  float* backward_weight() const { return forward_weight() + elements(); }
  float* weight_sums(int thread) const { return forward_weight() + (2 + thread) * elements(); }
  WinogradShape shape_of(int64_t samples) const {
    const Shape &in = inputs[0]->shape, &out = output->shape;
    return {samples, in.height, in.width, in.channels, out.channels};
  }

  void add_sums(const Chunk& chunk, const float* dy, float* scratch) {
    Sums& sums = sums_[static_cast<size_t>(chunk.thread)];
    float* weight = weight_sums(chunk.thread);
    if (sums.empty) {
      std::fill_n(weight, elements(), 0.0F);
      sums.bias.assign(static_cast<size_t>(output->shape.channels), 0);
      sums.squares = sums.bias;
    }
    sums.empty = false;
    winograd_.weight_sums(inputs[0]->data.at<float>(chunk), dy, shape_of(chunk.count), scratch, weight);
    if (options_.bias.value == nullptr) return;
    const int64_t pixels = output->shape.pixels();
    for (int64_t plane = 0; plane < output->planes(chunk); ++plane) {
      const int64_t channel = plane % output->blocks * kernels_.lanes;
      kernels_.moments(dy + plane * pixels * kernels_.lanes, pixels, sums.bias.data() + channel,
                       sums.squares.data() + channel);
    }
  }

  ConvolutionOptions options_;
  const VectorKernels<float>& kernels_;
  const WinogradKernels& winograd_;
  int threads_;
  HugePages memory_;  // weights packed for forward and for backward, and sums of each thread
  int64_t most_samples_ = 0;
  std::vector<Sums> sums_;  // per thread
  Buffer scratch_;
};

}  // namespace

ConvolutionChoice choose_convolution(std::string_view asked, bool bfloat16, const Value& input, const Value& output,
                                     const ConvolutionOptions& options, int lanes) {
  if (asked == "direct") return {false, "as asked"};
  if (bfloat16) return {false, "bf16"};
  if (options.kernel != 3 || options.stride != 1 || options.padding != 1) {
    return {false, "not 3x3 with stride 1 and padding 1"};
  }
  const Shape& shape = input.shape;
  if (input.layout != Layout::kBlocked || shape.channels % lanes != 0 || output.shape.channels % lanes != 0) {
    return {false, fmt::format("channels are no multiples of {}", lanes)};
  }
  if (asked == "winograd") return {true, "as asked"};
  // With more channels than that and small images, packed weights come from memory for few pixels.
  const bool faster = std::max(shape.channels, output.shape.channels) <= 256 || shape.pixels() >= 14 * 14;
  return {faster, "faster"};
}

std::unique_ptr<Operation> make_winograd_convolution(Value* input, Value* output, const ConvolutionOptions& options,
                                                     InstructionSet set, const VectorKernels<float>& kernels,
                                                     int threads) {
  return std::make_unique<WinogradConvolution>(input, output, options, set, kernels, threads);
}

}  // namespace mlbench::framework::native_framework
