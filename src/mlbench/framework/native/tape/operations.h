#pragma once

// The operations beside convolutions; each part names the file that holds it.

#include <memory>

#include "mlbench/framework/native/tape/tape.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

// --- from one layout to another (layouts.cpp)

// The network's input: rows of features to what the first operation reads.
template <typename T>
std::unique_ptr<Operation> make_input(Value* output, const Source& source, int lanes);
// Blocked to rows: all of {channels, height, width}.
template <typename T>
std::unique_ptr<Operation> make_flatten(Value* input, Value* output, int lanes);

// --- batch normalisation (Ioffe & Szegedy 2015), in two halves, since threads meet in between (batch_norm.cpp)
//
// Forward, `BatchStatistics` takes the moments of what was just computed, `Normalise` computes
// act(norm(x) [+ addend]). Backward, `Normalise` takes the sums of the gradient, `BatchStatistics` computes that of x.

struct NormOptions {
  Parameter weight, bias;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  double eps = 0, momentum = 0;
  bool frozen = false;  // the running statistics normalise, and stay, in training, too
  bool relu = false;
};
// What both halves share: per thread, [channels filled up to blocks].
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
// kind: relu, softplus
template <typename T>
std::unique_ptr<Operation> make_activation(const std::string& kind, Value* input, Value* output);

// Of rows. The mask of models/model.h, drawn again in the backward pass.
struct DropoutOptions {
  double p = 0;
  uint64_t seed = 0;
  int rank = 0;
  size_t layer = 0;
};
std::unique_ptr<Operation> make_dropout(Value* input, Value* output, const DropoutOptions& options);

// --- pools (pools.cpp)

template <typename T>
std::unique_ptr<Operation> make_max_pool(Value* input, Value* output, int64_t kernel, bool relu,
                                         const VectorKernels<T>& kernels);
template <typename T>
std::unique_ptr<Operation> make_avg_pool(Value* input, Value* output, int64_t kernel, int lanes);
// Blocked to rows: the mean over height and width.
template <typename T>
std::unique_ptr<Operation> make_global_avg_pool(Value* input, Value* output, int lanes);

// --- of the whole batch: rows times weights, each thread its share of the columns (linear.cpp)

// In float32 in every precision: at the end of a model of images rounding would cost digits of the logits and gain no
// time.
std::unique_ptr<Operation> make_linear(Value* input, Value* output, const Parameter& weight, const Parameter& bias);

}  // namespace mlbench::framework::native_framework
