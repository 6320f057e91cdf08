#pragma once

// Convolutions of 3x3, stride 1 and padding 1 in Winograd's order (winograd_body.inc), one thread per chunk of samples.
// Each forward pass first transforms the weights, in training for the backward pass, too. Gradients of weights are
// summed per thread, transformed, over the whole batch.

#include <memory>
#include <string>
#include <string_view>

#include "mlbench/framework/native/tape/convolution.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

struct ConvolutionChoice {
  bool winograd = false;
  std::string why;
};
// Chooses the order of a convolution's sums. `asked` is one of spec::kConvolutions. With "auto" the choice is the order
// that was measured to be faster (docs/frameworks/native.md). In bfloat16, and where Winograd's order is impossible, it
// is direct.
ConvolutionChoice choose_convolution(std::string_view asked, bool bfloat16, const Value& input, const Value& output,
                                     const ConvolutionOptions& options, int lanes);

// Precondition: choose_convolution() chose Winograd's order. `kernels` are those of `set`.
std::unique_ptr<Operation> make_winograd_convolution(Value* input, Value* output, const ConvolutionOptions& options,
                                                     InstructionSet set, const VectorKernels<float>& kernels,
                                                     int threads);

}  // namespace mlbench::framework::native_framework
