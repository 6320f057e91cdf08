#pragma once

// Two-dimensional convolution by oneDNN's primitives on chunks of samples, one thread per chunk. Each forward pass
// first packs the weights in the layouts that oneDNN asks for, for itself and, in training, for the backward pass.
// Gradients of weights are summed per thread in oneDNN's layout, and go to the flat buffer when all threads have
// finished the segment. The gradient of the network's input is not computed, as nobody needs it.
//
// A convolution that keeps height and width equals the gradient with respect to the input of another convolution, whose
// weights are mirrored and whose channels are exchanged. For 16 input and 16 output channels, oneDNN's kernel for that
// gradient is a third faster than its forward kernel (onednn_floor). There, the kernel for the gradient computes the
// forward pass, too.

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "mlbench/framework/native/tape/tape.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

struct ConvolutionOptions {
  int64_t kernel = 1, stride = 1, padding = 0;
  Parameter weight, bias;  // a null `bias.value` means no bias
  std::string why;         // this order of sums was chosen, for explanations
};

// Says of an operation that it is this convolution, however it computes it.
void describe_convolution(Value* input, Value* output, const ConvolutionOptions& options, Operation& operation);

// T is the type of the activations.
template <typename T>
class Convolution final : public Operation {
 public:
  Convolution(Value* input, Value* output, const ConvolutionOptions& options, const VectorKernels<T>& kernels,
              int threads);
  void prepare(const std::vector<int64_t>& counts) override;
  void pack(int thread, const Pass& pass) override;
  void forward(const Chunk& chunk, const Pass& pass) override;
  void backward(const Chunk& chunk, const Pass& pass) override;
  void finish_backward(int thread, const Pass& pass) override;
  Floor measure_floor() override;

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  // The primitives for chunks of one size.
  struct Primitives {
    dnnl::primitive forward, backward_data, backward_weights;
    dnnl::memory::desc source, target;             // the input and the output
    int source_argument = 0, target_argument = 0;  // the names of both as arguments of `forward`
    dnnl::memory::desc forward_scratchpad, data_scratchpad, weights_scratchpad;
    std::vector<Arguments> forward_arguments, data_arguments, weights_arguments;  // per thread
  };
  // Weights, or their gradients, in a layout of oneDNN's.
  struct Packed {
    dnnl::memory::desc desc;
    std::vector<int32_t> place;  // where each logical element is, in elements
    std::vector<std::byte> bytes;
  };
  struct Sums {  // sums of gradients over the chunks of one thread
    std::vector<float> weight, bias, chunk_weight, chunk_bias;
    bool empty = true;
  };

  bool mirrored() const;
  bool biased() const { return options_.bias.value != nullptr; }
  Primitives make(int64_t count);
  using ForwardDescriptor = dnnl::convolution_forward::primitive_desc;
  ForwardDescriptor describe_forward(const Primitives& made) const;
  void make_forward(const ForwardDescriptor& forward, Primitives& made);
  void make_mirrored(Primitives& made);
  void make_backward_weights(const ForwardDescriptor& forward, Primitives& made);
  void make_backward_data(const ForwardDescriptor& forward, Primitives& made);
  void reserve(const Primitives& made);
  void make_arguments(Primitives& made);
  static void settle(Packed& packed, const dnnl::memory::desc& desc, const std::vector<int64_t>& image = {});
  dnnl::memory::desc describe_weight(const Packed& packed, dnnl::memory::data_type type) const;
  dnnl::memory::desc describe_bias() const;
  const Primitives& primitives_of(int64_t count) const;

  ConvolutionOptions options_;
  const VectorKernels<T>& kernels_;
  int threads_;
  dnnl::memory::dims strides_, padding_;
  dnnl::primitive_attr attributes_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::vector<dnnl::stream> streams_;
  std::map<int64_t, Primitives> primitives_;
  Packed forward_weight_, backward_weight_, weight_gradient_;
  std::vector<std::vector<std::byte>> scratchpads_;  // per thread
  std::vector<Sums> sums_;
  Buffer partial_;  // the input's gradient, where it is added to another operation's
};

}  // namespace mlbench::framework::native_framework
