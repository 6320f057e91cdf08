#pragma once

// Convolutions of 3x3, stride 1 and padding 1 in Winograd's order (winograd_body.inc), one thread per chunk of samples.
// Each forward pass first transforms the weights, in training for the backward pass, too. Gradients of weights are
// summed per thread, transformed, over the whole batch.

#include <memory>

#include "mlbench/framework/native/tape/convolution.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

// Whether the convolution can take Winograd's order, and is measured to be faster in it (docs/frameworks/native.md).
bool suits_winograd(const Value& input, const Value& output, const ConvolutionOptions& options, int lanes);

// Precondition: suits_winograd(). `kernels` are those of `set`.
std::unique_ptr<Operation> make_winograd_convolution(Value* input, Value* output, const ConvolutionOptions& options,
                                                     InstructionSet set, const VectorKernels<float>& kernels,
                                                     int threads);

}  // namespace mlbench::framework::native_framework
