#include "mlbench/framework/native/tape/convolution.h"

#include <algorithm>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/tape/bfloat16.h"
#include "mlbench/framework/native/tape/profile.h"

namespace mlbench::framework::native_framework {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

template <typename T>
constexpr memory::data_type kType = std::is_same_v<T, float> ? memory::data_type::f32 : memory::data_type::bf16;

// The place of each element of OIHW in memory of this description, in elements.
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

// For each element of a weight, the element of the mirrored weight (with channels exchanged) that it is.
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

// Sets the layout, once: all sizes of chunks use the layout that the first one asked for. `image` says which element of
// the packed weight each element becomes; empty: the same element.
template <typename T>
void Convolution<T>::settle(Packed& packed, const memory::desc& desc, const std::vector<int64_t>& image) {
  if (!packed.place.empty()) return;
  packed.desc = desc;
  const std::vector<int32_t> places = places_of(desc);
  packed.place = places;
  for (size_t i = 0; i < image.size(); ++i) packed.place[i] = places[static_cast<size_t>(image[i])];
  packed.bytes.resize(desc.get_size());
}

void describe_convolution(Value* input, Value* output, const ConvolutionOptions& options, Operation& operation) {
  operation.inputs = {input};
  operation.output = output;
  operation.keeps = {input};
  if (input->wants_gradient) operation.writes_gradient_of = {input};
  if (options.bias.value != nullptr) operation.parameters.push_back(options.bias);
  operation.parameters.push_back(options.weight);
  operation.flops = 2.0 * static_cast<double>(options.weight.count * output->shape.pixels());
}

template <typename T>
Convolution<T>::Convolution(Value* input, Value* result, const ConvolutionOptions& options,
                            const VectorKernels<T>& kernels, int threads)
    : options_(options),
      kernels_(kernels),
      threads_(threads),
      strides_{options.stride, options.stride},
      padding_{options.padding, options.padding} {
  attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  describe_convolution(input, result, options, *this);
  partial_.bytes_per_sample = input->data.bytes_per_sample;
  temporary = {&partial_};
  for (int i = 0; i < threads; ++i) streams_.emplace_back(engine_);
  scratchpads_.resize(static_cast<size_t>(threads));
  sums_.resize(static_cast<size_t>(threads));
}

template <typename T>
void Convolution<T>::prepare(const std::vector<int64_t>& counts) {
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
  const Shape &in = inputs[0]->shape, &out = output->shape;
  const Tag blocked = kernels_.lanes == 16 ? Tag::nChw16c : Tag::nChw8c;
  const Tag of_source = inputs[0]->layout == Layout::kImage ? Tag::nchw : blocked;
  Primitives made;
  made.source = memory::desc({count, in.channels, in.height, in.width}, kType<T>, of_source);
  made.target = memory::desc({count, out.channels, out.height, out.width}, kType<T>, blocked);
  const ForwardDescriptor forward = describe_forward(made);
  if (mirrored()) {
    make_mirrored(made);
  } else {
    make_forward(forward, made);
  }
  make_backward_weights(forward, made);
  if (inputs[0]->wants_gradient) {
    make_backward_data(forward, made);
  } else {
    explanation += ", data not needed";
  }
  explanation += "; direct: " + options_.why;
  reserve(made);
  make_arguments(made);
  return made;
}

template <typename T>
memory::desc Convolution<T>::describe_weight(const Packed& packed, memory::data_type type) const {
  if (!packed.place.empty()) return packed.desc;
  return {{output->shape.channels, inputs[0]->shape.channels, options_.kernel, options_.kernel}, type, Tag::any};
}

template <typename T>
memory::desc Convolution<T>::describe_bias() const {
  return {{output->shape.channels}, memory::data_type::f32, Tag::x};
}

template <typename T>
auto Convolution<T>::describe_forward(const Primitives& made) const -> ForwardDescriptor {
  using Descriptor = dnnl::convolution_forward::desc;
  const memory::desc weight = describe_weight(forward_weight_, kType<T>);
  const Descriptor descriptor =
      biased() ? Descriptor(kTraining, kDirect, made.source, weight, describe_bias(), made.target, strides_, padding_,
                            padding_)
               : Descriptor(kTraining, kDirect, made.source, weight, made.target, strides_, padding_, padding_);
  return {descriptor, attributes_, engine_};
}

template <typename T>
void Convolution<T>::make_forward(const ForwardDescriptor& forward, Primitives& made) {
  settle(forward_weight_, forward.weights_desc());
  made.forward = dnnl::convolution_forward(forward);
  made.source_argument = DNNL_ARG_SRC;
  made.target_argument = DNNL_ARG_DST;
  made.forward_scratchpad = forward.scratchpad_desc();
  explanation = std::string("forward ") + forward.impl_info_str();
}

template <typename T>
void Convolution<T>::make_mirrored(Primitives& made) {
  const memory::desc any = describe_weight({}, kType<T>);
  const ForwardDescriptor hint({kTraining, kDirect, made.target, any, made.source, strides_, padding_, padding_},
                               attributes_, engine_);
  const dnnl::convolution_backward_data::primitive_desc mirror(
      {kDirect, made.target, describe_weight(forward_weight_, kType<T>), made.source, strides_, padding_, padding_},
      attributes_, engine_, hint);
  settle(forward_weight_, mirror.weights_desc(), mirror_image(inputs[0]->shape.channels, options_.kernel));
  made.forward = dnnl::convolution_backward_data(mirror);
  made.source_argument = DNNL_ARG_DIFF_DST;
  made.target_argument = DNNL_ARG_DIFF_SRC;
  made.forward_scratchpad = mirror.scratchpad_desc();
  explanation =
      std::string("forward ") + mirror.impl_info_str() + " of backward data, mirrored: faster for 16 channels";
}

template <typename T>
void Convolution<T>::make_backward_weights(const ForwardDescriptor& forward, Primitives& made) {
  using Descriptor = dnnl::convolution_backward_weights::desc;
  const memory::desc weight = describe_weight(weight_gradient_, memory::data_type::f32);
  const Descriptor descriptor =
      biased() ? Descriptor(kDirect, made.source, weight, describe_bias(), made.target, strides_, padding_, padding_)
               : Descriptor(kDirect, made.source, weight, made.target, strides_, padding_, padding_);
  const dnnl::convolution_backward_weights::primitive_desc backward(descriptor, attributes_, engine_, forward);
  settle(weight_gradient_, backward.diff_weights_desc());
  made.backward_weights = dnnl::convolution_backward_weights(backward);
  made.weights_scratchpad = backward.scratchpad_desc();
  explanation += std::string(", weights ") + backward.impl_info_str();
}

template <typename T>
void Convolution<T>::make_backward_data(const ForwardDescriptor& forward, Primitives& made) {
  const dnnl::convolution_backward_data::primitive_desc backward(
      {kDirect, made.source, describe_weight(backward_weight_, kType<T>), made.target, strides_, padding_, padding_},
      attributes_, engine_, forward);
  settle(backward_weight_, backward.weights_desc());
  made.backward_data = dnnl::convolution_backward_data(backward);
  made.data_scratchpad = backward.scratchpad_desc();
  explanation += std::string(", data ") + backward.impl_info_str();
}

// Makes room for what the primitives of each thread need.
template <typename T>
void Convolution<T>::reserve(const Primitives& made) {
  const size_t scratchpad = std::max(
      {made.forward_scratchpad.get_size(), made.weights_scratchpad.get_size(), made.data_scratchpad.get_size()});
  const size_t elements = weight_gradient_.desc.get_size() / sizeof(float);
  const auto biases = static_cast<size_t>(biased() ? output->shape.channels : 0);
  for (std::vector<std::byte>& pad : scratchpads_) {
    if (pad.size() < scratchpad) pad.resize(scratchpad);
  }
  for (Sums& sums : sums_) {
    sums.weight.resize(elements);
    sums.chunk_weight.resize(elements);
    sums.bias.resize(biases);
    sums.chunk_bias.resize(biases);
  }
}

// Makes the arguments of each thread. The pointers to activations, gradients and scratchpads are set when the thread
// runs.
template <typename T>
void Convolution<T>::make_arguments(Primitives& made) {
  const auto at = [&](const memory::desc& desc, void* place) { return memory(desc, engine_, place); };
  const auto later = [&](const memory::desc& desc) { return at(desc, DNNL_MEMORY_NONE); };
  for (int thread = 0; thread < threads_; ++thread) {
    Arguments arguments = {{made.source_argument, later(made.source)},
                           {DNNL_ARG_WEIGHTS, at(forward_weight_.desc, forward_weight_.bytes.data())},
                           {made.target_argument, later(made.target)},
                           {DNNL_ARG_SCRATCHPAD, later(made.forward_scratchpad)}};
    if (biased()) arguments.insert({DNNL_ARG_BIAS, at(describe_bias(), const_cast<float*>(options_.bias.value))});
    made.forward_arguments.push_back(std::move(arguments));

    arguments = {{DNNL_ARG_SRC, later(made.source)},
                 {DNNL_ARG_DIFF_DST, later(made.target)},
                 {DNNL_ARG_DIFF_WEIGHTS, later(weight_gradient_.desc)},
                 {DNNL_ARG_SCRATCHPAD, later(made.weights_scratchpad)}};
    if (biased()) arguments.insert({DNNL_ARG_DIFF_BIAS, later(describe_bias())});
    made.weights_arguments.push_back(std::move(arguments));

    if (!inputs[0]->wants_gradient) continue;
    made.data_arguments.push_back({{DNNL_ARG_DIFF_SRC, later(made.source)},
                                   {DNNL_ARG_WEIGHTS, at(backward_weight_.desc, backward_weight_.bytes.data())},
                                   {DNNL_ARG_DIFF_DST, later(made.target)},
                                   {DNNL_ARG_SCRATCHPAD, later(made.data_scratchpad)}});
  }
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
  arguments.at(made.source_argument).set_data_handle(inputs[0]->data.template at<void>(chunk));
  arguments.at(made.target_argument).set_data_handle(output->data.template at<void>(chunk));
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
  const int64_t count = primitives_.rbegin()->first;
  const Primitives& made = primitives_.rbegin()->second;
  const auto best = [&](const dnnl::primitive& primitive, const Arguments& arguments) {
    Arguments own;
    for (const auto& [argument, like] : arguments) {
      own.insert({argument, memory(like.get_desc(), engine_)});
      // This value is neither zero nor denormal in both types.
      std::fill_n(static_cast<uint16_t*>(own.at(argument).get_data_handle()), like.get_desc().get_size() / 2,
                  uint16_t{0x3e80});
    }
    return fastest_call_s([&] { primitive.execute(streams_[0], own); }) / static_cast<double>(count);
  };
  Floor floor;
  floor.forward_s = best(made.forward, made.forward_arguments[0]);
  floor.backward_s = best(made.backward_weights, made.weights_arguments[0]);
  if (!made.data_arguments.empty()) floor.backward_s += best(made.backward_data, made.data_arguments[0]);
  return floor;
}

template class Convolution<float>;
template class Convolution<BFloat16>;

}  // namespace mlbench::framework::native_framework
