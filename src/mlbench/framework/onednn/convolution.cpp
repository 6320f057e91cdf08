#include "mlbench/framework/onednn/convolution.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/framework/onednn/bfloat16.h"

namespace mlbench::framework::onednn_framework {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

template <typename T>
constexpr memory::data_type kType = std::is_same_v<T, float> ? memory::data_type::f32 : memory::data_type::bf16;

// Where each element of OIHW lies, in elements.
std::vector<int32_t> places_of(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  std::vector<int32_t> places;
  int64_t at[4];
  for (at[0] = 0; at[0] < d.dims[0]; ++at[0]) {
    for (at[1] = 0; at[1] < d.dims[1]; ++at[1]) {
      for (at[2] = 0; at[2] < d.dims[2]; ++at[2]) {
        for (at[3] = 0; at[3] < d.dims[3]; ++at[3]) {
          int64_t rest[4] = {at[0], at[1], at[2], at[3]};
          int64_t place = d.offset0, stride = 1;
          for (int block = blocking.inner_nblks - 1; block >= 0; --block) {
            const auto dimension = static_cast<size_t>(blocking.inner_idxs[block]);
            place += rest[dimension] % blocking.inner_blks[block] * stride;
            rest[dimension] /= blocking.inner_blks[block];
            stride *= blocking.inner_blks[block];
          }
          for (size_t i = 0; i < 4; ++i) place += rest[i] * blocking.strides[i];
          places.push_back(static_cast<int32_t>(place));
        }
      }
    }
  }
  return places;
}

// Which element of a mirrored weight, whose channels have changed places, each element of the weight is.
std::vector<int64_t> mirror_image(int64_t channels, int64_t kernel) {
  const int64_t pixels = kernel * kernel;
  std::vector<int64_t> image;
  for (int64_t out = 0; out < channels; ++out) {
    for (int64_t in = 0; in < channels; ++in) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        image.push_back((in * channels + out) * pixels + pixels - 1 - pixel);
      }
    }
  }
  return image;
}

template <typename T>
void scatter(const float* values, const std::vector<int32_t>& place, const Share& share, std::byte* bytes) {
  T* packed = reinterpret_cast<T*>(bytes);
  for (int64_t i = share.begin; i < share.end; ++i) {
    packed[place[static_cast<size_t>(i)]] = rounded_to<T>(values[i]);
  }
}

}  // namespace

template <typename T>
Convolution<T>::Convolution(Value* input, Value* result, const ConvolutionOptions& options,
                            const VectorKernels<T>& kernels, int threads)
    : options_(options), kernels_(kernels), threads_(threads) {
  inputs = {input};
  output = result;
  keeps = {input};
  if (input->wants_gradient) writes_gradient_of = {input};
  if (options.bias.value != nullptr) parameters.push_back(options.bias);
  parameters.push_back(options.weight);
  flops = 2.0 * static_cast<double>(options.weight.count * result->shape.pixels());
  partial_.bytes_per_sample = input->data.bytes_per_sample;
  temporary = {&partial_};
  for (int i = 0; i < threads; ++i) streams_.emplace_back(engine_);
  scratchpads_.resize(static_cast<size_t>(threads));
  sums_.resize(static_cast<size_t>(threads));
}

template <typename T>
void Convolution<T>::prepare(const std::vector<int64_t>& counts, int64_t) {
  for (const int64_t count : counts) {
    if (!primitives_.contains(count)) primitives_.emplace(count, make(count));
  }
}

template <typename T>
bool Convolution<T>::mirrored() const {
  return std::is_same_v<T, float> && kernels_.lanes == 16 && inputs[0]->layout == Layout::kBlocked &&
         inputs[0]->shape.channels == 16 && output->shape.channels == 16 && options_.stride == 1 &&
         2 * options_.padding + 1 == options_.kernel && options_.bias.value == nullptr;
}

template <typename T>
auto Convolution<T>::make(int64_t count) -> Primitives {
  const Value& x = *inputs[0];
  const Value& y = *output;
  const memory::dims strides = {options_.stride, options_.stride}, padding = {options_.padding, options_.padding};
  const Tag blocked = kernels_.lanes == 16 ? Tag::nChw16c : Tag::nChw8c;
  const bool image = x.layout == Layout::kImage;
  const memory::desc source({count, x.shape.channels, x.shape.height, x.shape.width}, kType<T>,
                            image ? Tag::nchw : blocked);
  const memory::desc target({count, y.shape.channels, y.shape.height, y.shape.width}, kType<T>, blocked);
  const memory::dims weight_dims = {y.shape.channels, x.shape.channels, options_.kernel, options_.kernel};
  const auto weights = [&](const Packed& packed, memory::data_type type) {
    return packed.place.empty() ? memory::desc(weight_dims, type, Tag::any) : packed.desc;
  };
  // All sizes of chunks use the layout that the first one asked for.
  const auto settle = [](Packed& packed, const memory::desc& desc, const std::vector<int64_t>& image = {}) {
    if (!packed.place.empty()) return;
    packed.desc = desc;
    const std::vector<int32_t> places = places_of(desc);
    packed.place = places;
    for (size_t i = 0; i < image.size(); ++i) packed.place[i] = places[static_cast<size_t>(image[i])];
    packed.bytes.resize(desc.get_size());
  };
  const bool biased = options_.bias.value != nullptr;
  const memory::desc bias({y.shape.channels}, memory::data_type::f32, Tag::x);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  constexpr auto kTraining = dnnl::prop_kind::forward_training;

  const auto forward_desc =
      biased ? dnnl::convolution_forward::desc(kTraining, kAlgorithm, source, weights(forward_weight_, kType<T>), bias,
                                               target, strides, padding, padding)
             : dnnl::convolution_forward::desc(kTraining, kAlgorithm, source, weights(forward_weight_, kType<T>),
                                               target, strides, padding, padding);
  const dnnl::convolution_forward::primitive_desc forward(forward_desc, attributes, engine_);
  memory::desc forward_scratchpad = forward.scratchpad_desc();

  Primitives made;
  if (mirrored()) {
    const dnnl::convolution_forward::primitive_desc hint(
        {kTraining, kAlgorithm, target, memory::desc(weight_dims, kType<T>, Tag::any), source, strides, padding,
         padding},
        attributes, engine_);
    const dnnl::convolution_backward_data::primitive_desc mirror(
        {kAlgorithm, target, weights(forward_weight_, kType<T>), source, strides, padding, padding}, attributes,
        engine_, hint);
    settle(forward_weight_, mirror.weights_desc(), mirror_image(x.shape.channels, options_.kernel));
    made.forward = dnnl::convolution_backward_data(mirror);
    made.source = DNNL_ARG_DIFF_DST;
    made.target = DNNL_ARG_DIFF_SRC;
    forward_scratchpad = mirror.scratchpad_desc();
    explanation =
        std::string("forward ") + mirror.impl_info_str() + " of backward data, mirrored: faster for 16 channels";
  } else {
    settle(forward_weight_, forward.weights_desc());
    made.forward = dnnl::convolution_forward(forward);
    made.source = DNNL_ARG_SRC;
    made.target = DNNL_ARG_DST;
    explanation = std::string("forward ") + forward.impl_info_str();
  }
  const auto weights_desc = biased ? dnnl::convolution_backward_weights::desc(
                                         kAlgorithm, source, weights(weight_gradient_, memory::data_type::f32), bias,
                                         target, strides, padding, padding)
                                   : dnnl::convolution_backward_weights::desc(
                                         kAlgorithm, source, weights(weight_gradient_, memory::data_type::f32), target,
                                         strides, padding, padding);
  const dnnl::convolution_backward_weights::primitive_desc backward_weights(weights_desc, attributes, engine_, forward);
  settle(weight_gradient_, backward_weights.diff_weights_desc());
  made.backward_weights = dnnl::convolution_backward_weights(backward_weights);
  explanation += std::string(", weights ") + backward_weights.impl_info_str();

  size_t scratchpad = std::max(forward_scratchpad.get_size(), backward_weights.scratchpad_desc().get_size());
  dnnl::convolution_backward_data::primitive_desc backward_data;
  if (x.wants_gradient) {
    backward_data = dnnl::convolution_backward_data::primitive_desc(
        dnnl::convolution_backward_data::desc(kAlgorithm, source, weights(backward_weight_, kType<T>), target, strides,
                                              padding, padding),
        attributes, engine_, forward);
    settle(backward_weight_, backward_data.weights_desc());
    made.backward_data = dnnl::convolution_backward_data(backward_data);
    scratchpad = std::max(scratchpad, backward_data.scratchpad_desc().get_size());
    explanation += std::string(", data ") + backward_data.impl_info_str();
  } else {
    explanation += ", data not needed";
  }

  const auto at = [&](const memory::desc& desc, void* place) { return memory(desc, engine_, place); };
  for (int thread = 0; thread < threads_; ++thread) {
    auto& pad = scratchpads_[static_cast<size_t>(thread)];
    if (pad.size() < scratchpad) pad.resize(scratchpad);
    Sums& sums = sums_[static_cast<size_t>(thread)];
    const size_t elements = weight_gradient_.desc.get_size() / sizeof(float);
    const auto biases = static_cast<size_t>(biased ? y.shape.channels : 0);
    sums.weight.resize(elements);
    sums.chunk_weight.resize(elements);
    sums.bias.resize(biases);
    sums.chunk_bias.resize(biases);
    // Pointers to activations and scratchpads are set when it runs.
    Arguments arguments = {{made.source, at(source, DNNL_MEMORY_NONE)},
                           {DNNL_ARG_WEIGHTS, at(forward_weight_.desc, forward_weight_.bytes.data())},
                           {made.target, at(target, DNNL_MEMORY_NONE)},
                           {DNNL_ARG_SCRATCHPAD, at(forward_scratchpad, DNNL_MEMORY_NONE)}};
    if (biased) arguments.insert({DNNL_ARG_BIAS, at(bias, const_cast<float*>(options_.bias.value))});
    made.forward_arguments.push_back(std::move(arguments));

    arguments = {{DNNL_ARG_SRC, at(source, DNNL_MEMORY_NONE)},
                 {DNNL_ARG_DIFF_DST, at(target, DNNL_MEMORY_NONE)},
                 {DNNL_ARG_DIFF_WEIGHTS, at(weight_gradient_.desc, DNNL_MEMORY_NONE)},
                 {DNNL_ARG_SCRATCHPAD, at(backward_weights.scratchpad_desc(), DNNL_MEMORY_NONE)}};
    if (biased) arguments.insert({DNNL_ARG_DIFF_BIAS, at(bias, DNNL_MEMORY_NONE)});
    made.weights_arguments.push_back(std::move(arguments));

    if (!x.wants_gradient) continue;
    made.data_arguments.push_back({{DNNL_ARG_DIFF_SRC, at(source, DNNL_MEMORY_NONE)},
                                   {DNNL_ARG_WEIGHTS, at(backward_weight_.desc, backward_weight_.bytes.data())},
                                   {DNNL_ARG_DIFF_DST, at(target, DNNL_MEMORY_NONE)},
                                   {DNNL_ARG_SCRATCHPAD, at(backward_data.scratchpad_desc(), DNNL_MEMORY_NONE)}});
  }
  return made;
}

template <typename T>
auto Convolution<T>::primitives_of(int64_t count) const -> const Primitives& {
  const auto found = primitives_.find(count);
  MLBENCH_CHECK(found != primitives_.end(), name + ": a chunk of " + std::to_string(count) + " samples");
  return found->second;
}

template <typename T>
void Convolution<T>::pack(int thread, const Pass& pass) {
  const Share share = share_of(options_.weight.count, thread, threads_, 16);
  scatter<T>(options_.weight.value, forward_weight_.place, share, forward_weight_.bytes.data());
  if (pass.training && !backward_weight_.place.empty()) {
    scatter<T>(options_.weight.value, backward_weight_.place, share, backward_weight_.bytes.data());
  }
  sums_[static_cast<size_t>(thread)].empty = true;
}

template <typename T>
void Convolution<T>::forward(const Chunk& chunk, const Pass&) {
  const auto thread = static_cast<size_t>(chunk.thread);
  const Primitives& made = primitives_of(chunk.count);
  const Arguments& arguments = made.forward_arguments[thread];
  arguments.at(made.source).set_data_handle(inputs[0]->data.template at<void>(chunk));
  arguments.at(made.target).set_data_handle(output->data.template at<void>(chunk));
  arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratchpads_[thread].data());
  made.forward.execute(streams_[thread], arguments);
}

template <typename T>
void Convolution<T>::backward(const Chunk& chunk, const Pass&) {
  const auto thread = static_cast<size_t>(chunk.thread);
  const Primitives& made = primitives_of(chunk.count);
  void* gradient = output->final_gradient().template at<void>(chunk);
  Sums& sums = sums_[thread];

  const Arguments& arguments = made.weights_arguments[thread];
  std::vector<float>& weight = sums.empty ? sums.weight : sums.chunk_weight;
  std::vector<float>& bias = sums.empty ? sums.bias : sums.chunk_bias;
  arguments.at(DNNL_ARG_SRC).set_data_handle(inputs[0]->data.template at<void>(chunk));
  arguments.at(DNNL_ARG_DIFF_DST).set_data_handle(gradient);
  arguments.at(DNNL_ARG_DIFF_WEIGHTS).set_data_handle(weight.data());
  arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratchpads_[thread].data());
  if (!bias.empty()) arguments.at(DNNL_ARG_DIFF_BIAS).set_data_handle(bias.data());
  made.backward_weights.execute(streams_[thread], arguments);
  if (!sums.empty) {
    for (size_t i = 0; i < sums.weight.size(); ++i) sums.weight[i] += sums.chunk_weight[i];
    for (size_t i = 0; i < sums.bias.size(); ++i) sums.bias[i] += sums.chunk_bias[i];
  }
  sums.empty = false;

  if (writes_gradient_of.empty()) return;
  const Value& x = *inputs[0];
  const Buffer& target = adds[0] ? partial_ : x.gradient;
  const Arguments& of_data = made.data_arguments[thread];
  of_data.at(DNNL_ARG_DIFF_SRC).set_data_handle(target.template at<void>(chunk));
  of_data.at(DNNL_ARG_DIFF_DST).set_data_handle(gradient);
  of_data.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratchpads_[thread].data());
  made.backward_data.execute(streams_[thread], of_data);
  if (adds[0]) {
    T* sum = x.gradient.template at<T>(chunk);
    kernels_.add(sum, partial_.template at<T>(chunk), x.planes(chunk) * x.shape.pixels(), sum);
  }
}

template <typename T>
void Convolution<T>::finish_backward(int thread, const Pass& pass) {
  const auto gather = [&](const Parameter& parameter, std::vector<float> Sums::*sums, const int32_t* place) {
    const Share share = share_of(parameter.count, thread, threads_, 16);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const auto at = static_cast<size_t>(place != nullptr ? place[i] : i);
      float sum = pass.accumulate ? parameter.gradient[i] : 0.0F;
      for (const Sums& part : sums_) {
        if (!part.empty) sum += (part.*sums)[at];
      }
      parameter.gradient[i] = sum;
    }
  };
  gather(options_.weight, &Sums::weight, weight_gradient_.place.data());
  if (options_.bias.value != nullptr) gather(options_.bias, &Sums::bias, nullptr);
}

template <typename T>
Operation::Floor Convolution<T>::measure_floor() {
  if (primitives_.empty()) return {};
  constexpr int kCalls = 20;
  const int64_t count = primitives_.rbegin()->first;
  const Primitives& made = primitives_.rbegin()->second;
  const auto best = [&](const dnnl::primitive& primitive, const Arguments& arguments) {
    Arguments own;
    for (const auto& [argument, like] : arguments) {
      own.insert({argument, memory(like.get_desc(), engine_)});
      // Neither zeros nor denormals, in both types.
      std::fill_n(static_cast<uint16_t*>(own.at(argument).get_data_handle()), like.get_desc().get_size() / 2,
                  uint16_t{0x3e80});
    }
    double best_s = std::numeric_limits<double>::infinity();
    for (int call = 0; call < kCalls; ++call) {
      const auto begin = std::chrono::steady_clock::now();
      primitive.execute(streams_[0], own);
      best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best_s / static_cast<double>(count);
  };
  Floor floor;
  floor.forward_s = best(made.forward, made.forward_arguments[0]);
  floor.backward_s = best(made.backward_weights, made.weights_arguments[0]);
  if (!made.data_arguments.empty()) floor.backward_s += best(made.backward_data, made.data_arguments[0]);
  return floor;
}

template class Convolution<float>;
template class Convolution<BFloat16>;

}  // namespace mlbench::framework::onednn_framework
