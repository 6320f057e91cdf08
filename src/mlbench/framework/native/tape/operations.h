#pragma once

// The operations other than convolutions. The heading of each part names the file that holds it.

#include <memory>

#include "mlbench/framework/native/tape/tape.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

// --- from one layout to another (layouts.cpp)

// The network's input: converts rows of features to the layout that the first operation reads.
template <typename T>
std::unique_ptr<Operation> make_input(Value* output, const Source& source, int lanes);
// Flattens a blocked value to rows of all {channels, height, width}.
template <typename T>
std::unique_ptr<Operation> make_flatten(Value* input, Value* output, int lanes);

// --- batch normalisation (Ioffe & Szegedy 2015) in two halves, since threads meet in between (batch_norm.cpp)
//
// Forward, BatchStatistics takes the moments of what was just computed, and Normalise computes act(norm(x) [+ addend]).
// Backward, Normalise takes the sums of the gradient, and BatchStatistics computes the gradient of x.

struct NormOptions {
  Parameter weight, bias;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  double eps = 0, momentum = 0;
  bool frozen = false;  // in training, too, the running statistics normalise, and do not change
  bool relu = false;
};
// What both halves share: per thread, values of the channels, padded to whole blocks. `padded` is their number.
class NormState;
std::shared_ptr<NormState> make_norm_state(const NormOptions& options, int64_t channels, int64_t padded, int threads);

template <typename T>
std::unique_ptr<Operation> make_batch_statistics(Value* x, const Value* normalised, std::shared_ptr<NormState> state,
                                                 const VectorKernels<T>& kernels);
template <typename T>
std::unique_ptr<Operation> make_normalise(Value* x, Value* addend, Value* output, std::shared_ptr<NormState> state,
                                          const VectorKernels<T>& kernels);

// --- element by element (elementwise.cpp)

template <typename T>
std::unique_ptr<Operation> make_sum(Value* a, Value* b, Value* output, const VectorKernels<T>& kernels);
template <typename T>
std::unique_ptr<Operation> make_relu(Value* input, Value* output,
                                     const VectorKernels<T>& kernels);  // of blocked values
// `kind` is relu or softplus.
template <typename T>
std::unique_ptr<Operation> make_activation(const std::string& kind, Value* input, Value* output);

// Dropout of rows, with the mask of models/model.h. The backward pass draws the mask again.
struct DropoutOptions {
  double p = 0;
  uint64_t seed = 0;
  int rank = 0;
  size_t layer = 0;
};
std::unique_ptr<Operation> make_dropout(Value* input, Value* output, const DropoutOptions& options);

// --- pools (pools.cpp)

template <typename T>
std::unique_ptr<Operation> make_max_pool(Value* input, Value* output, const PoolShape& shape, bool relu,
                                         const VectorKernels<T>& kernels);
template <typename T>
std::unique_ptr<Operation> make_avg_pool(Value* input, Value* output, const PoolShape& shape, int lanes);
// The windows follow from the extents of input and output.
template <typename T>
std::unique_ptr<Operation> make_adaptive_avg_pool(Value* input, Value* output, int lanes);
// The mean over height and width, from a blocked value to rows.
template <typename T>
std::unique_ptr<Operation> make_global_avg_pool(Value* input, Value* output, int lanes);
// The means of all channels, then the maxima. Of equal maxima the first counts.
template <typename T>
std::unique_ptr<Operation> make_global_avg_max_pool(Value* input, Value* output, int lanes);

// --- linear layer, which takes the whole batch: each thread computes its share of the columns (linear.cpp)

// The product is float32 in every precision: at the end of a model of images, rounding would cost digits of the logits
// and gain no time. A null `bias.value` means no bias.
std::unique_ptr<Operation> make_linear(Value* input, Value* output, const Parameter& weight, const Parameter& bias);

}  // namespace mlbench::framework::native_framework
